package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zlnode/zlnode/internal/admin"
)

// This file has the commands of operators, each for one node that is named by the address of its
// admin port.

const (
	// tokenEnv has the token if --token-file names no file.
	tokenEnv = "ZLNODE_ADMIN_TOKEN"
	// secretFileMax bounds a file of a token or of passes.
	secretFileMax = 64 << 10
	// answerTime bounds one answer that needs no wait.
	answerTime = 20 * time.Second
	// waitSlack is how much longer an answer may take than what it waits for.
	waitSlack = 10 * time.Second
	// askWait is how long a command that waits asks the node to wait at once.
	askWait = 20 * time.Second
)

const nodeArgument = `NODE is the address of the node's admin port (Config.Admin), such as 127.0.0.1:7800. The token
is the first line of --token-file, or ` + tokenEnv + `.`

// door is how a command reaches its node.
type door struct {
	tokenFile string
	json      bool
}

// command makes one of the commands. run asks the node, with a context that ends with an interrupt.
func (d *door) command(use, short, long string, run func(ctx context.Context, c *admin.Client, out io.Writer) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use + " NODE", Short: short, Long: short + ".\n\n" + long + nodeArgument, Args: oneNode,
		RunE: func(cmd *cobra.Command, args []string) error {
			token, err := d.token(cmd.InOrStdin())
			if err != nil {
				return err
			}
			c := admin.NewClient(args[0], token)
			defer c.Close()
			ctx := cmd.Context()
			if ctx == nil {
				ctx = context.Background()
			}
			ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
			defer stop()
			return run(ctx, c, cmd.OutOrStdout())
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&d.tokenFile, "token-file", "", "`file` that has the token, or - for standard input")
	cmd.Flags().BoolVar(&d.json, "json", false, "print what the node answers as JSON")
	return cmd
}

// oneNode checks the argument: a command does not guess which node is meant.
func oneNode(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s is for one node: name the address of its admin port, such as 127.0.0.1:7800", cmd.Name())
	}
	if _, port, err := net.SplitHostPort(args[0]); err != nil || port == "" {
		return fmt.Errorf("%q is no address of an admin port; it is host:port, such as 127.0.0.1:7800", args[0])
	}
	return nil
}

func (d *door) token(stdin io.Reader) ([]byte, error) {
	b := []byte(os.Getenv(tokenEnv))
	if d.tokenFile != "" {
		var err error
		if b, err = readSecrets(d.tokenFile, stdin); err != nil {
			return nil, fmt.Errorf("the token cannot be read: %w", err)
		}
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	line = bytes.TrimSpace(line)
	if err := admin.CheckToken(line); err != nil {
		return nil, fmt.Errorf("there is no token of 16 bytes or more in --token-file or %s", tokenEnv)
	}
	return line, nil
}

// readSecrets reads a file, or standard input for "-".
func readSecrets(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // it was read only
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, secretFileMax+1))
	if err == nil && len(b) > secretFileMax {
		err = fmt.Errorf("%s is larger than %d KiB", name, secretFileMax>>10)
	}
	return b, err
}

func soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, answerTime)
}

// show prints a status, or anything as JSON.
func (d *door) show(out io.Writer, s *admin.Status) error {
	if d.json {
		return json.NewEncoder(out).Encode(s)
	}
	return printStatus(out, s)
}

func statusCommand() *cobra.Command {
	d := &door{}
	return d.command("status", "Show the state of a node", "", func(ctx context.Context, c *admin.Client, out io.Writer) error {
		ctx, cancel := soon(ctx)
		defer cancel()
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		return d.show(out, &s)
	})
}

func cordonCommand() *cobra.Command {
	d, file := &door{}, ""
	cmd := d.command("cordon", "Have nothing new placed at a node", `What is there goes on, and who names a pass is let in. It stands until uncordon, or the end of the
process; a second time its passes take the place of those before.

`, func(ctx context.Context, c *admin.Client, out io.Writer) error {
		var passes []string
		if file != "" {
			b, err := readSecrets(file, strings.NewReader(""))
			if err != nil {
				return fmt.Errorf("the passes cannot be read: %w", err)
			}
			passes = strings.Fields(string(b))
		}
		ctx, cancel := soon(ctx)
		defer cancel()
		s, err := c.Cordon(ctx, passes)
		if err != nil {
			return err
		}
		return d.show(out, &s)
	})
	cmd.Flags().StringVar(&file, "pass-file", "", "`file` of up to 16 passes, apart by white space")
	return cmd
}

func uncordonCommand() *cobra.Command {
	d := &door{}
	return d.command("uncordon", "End the cordon of a node", "", func(ctx context.Context, c *admin.Client, out io.Writer) error {
		ctx, cancel := soon(ctx)
		defer cancel()
		s, err := c.Uncordon(ctx)
		if err != nil {
			return err
		}
		return d.show(out, &s)
	})
}

// limitFlags are the limits of a node by their names in JSON.
var limitFlags = []struct{ flag, name, usage string }{
	{"link-bytes", "link_bytes", "`bytes` of moving state that are under way to one node; -1: no bound"},
	{"node-bytes", "node_bytes", "`bytes` of moving state that are under way to all nodes; -1: no bound"},
	{"chunk-bytes", "chunk_bytes", "largest piece of what comes here, in `bytes`"},
	{"max-moves", "max_moves", "`number` of objects that leave at once"},
	{"max-restores", "max_restores", "`number` of objects that are restored at once"},
}

func limitsCommand() *cobra.Command {
	d, values := &door{}, make([]int64, len(limitFlags))
	var cmd *cobra.Command
	cmd = d.command("limits", "Show or change the limits of moves of a node", `Limits that no flag names stay. 0 is the default of each. They hold at once, and until the end of
the process.

`, func(ctx context.Context, c *admin.Client, out io.Writer) error {
		change := map[string]int64{}
		for i, l := range limitFlags {
			if cmd.Flags().Changed(l.flag) {
				change[l.name] = values[i]
			}
		}
		ctx, cancel := soon(ctx)
		defer cancel()
		got, err := c.SetLimits(ctx, change)
		if err != nil {
			return err
		}
		if d.json {
			return json.NewEncoder(out).Encode(got)
		}
		return printLimits(out, &got)
	})
	for i, l := range limitFlags {
		cmd.Flags().Int64Var(&values[i], l.flag, 0, l.usage)
	}
	return cmd
}

func shutdownCommand() *cobra.Command {
	d, timeout := &door{}, time.Duration(0)
	cmd := d.command("shutdown", "End a node in order", `What is still there ends with it: relocate goes before. It waits for the end. Exit status 0: all has
ended in order; 3: not all has.

`, func(ctx context.Context, c *admin.Client, out io.Writer) error {
		if timeout < time.Second || timeout > time.Hour {
			return fmt.Errorf("--timeout %v is not in 1s to 1h0m0s", timeout)
		}
		end := time.Now().Add(timeout + waitSlack)
		for {
			wait := max(min(askWait, time.Until(end)), 0)
			ask, cancel := context.WithTimeout(ctx, wait+waitSlack)
			s, err := c.Shutdown(ask, timeout, wait)
			cancel()
			switch {
			case err != nil:
				return err
			case s.ShutdownEnd == nil && wait > 0:
				continue
			case s.ShutdownEnd == nil:
				return errors.New("the node has not ended in time")
			}
			if err := d.show(out, &s); err != nil {
				return err
			}
			if s.ShutdownEnd.Outcome != "Stopped" {
				return fmt.Errorf("%w: %s", errDisorder, s.ShutdownEnd.Reason)
			}
			return nil
		}
	})
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long it may take, a `duration`; what is left then is cut short")
	return cmd
}

func printStatus(out io.Writer, s *admin.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	version, ready, cordon := "", "not ready", ""
	if s.Version != "" {
		version = ", version " + s.Version
	}
	if s.Ready {
		ready = "ready"
	}
	if s.Cordoned {
		cordon = fmt.Sprintf(", cordoned with %d passes", s.Passes)
	}
	fmt.Fprintf(w, "node\t%s, lifecycle %d%s\n", s.RID, s.Lifecycle, version)
	fmt.Fprintf(w, "state\t%s, %s%s\n", s.State, ready, cordon)
	fmt.Fprintf(w, "objects\t%d actors, %d spots; %d have left, %d have come, %d are stuck\n", s.Actors, s.Spots, s.MovedOut, s.MovedIn, s.Stuck)
	fmt.Fprintf(w, "sessions\t%d\nlinks\t%d\n", s.Sessions, s.Links)
	if r := s.Relocation; r != nil {
		fmt.Fprintf(w, "relocation\t%s\n", progressText(r, time.Now()))
	}
	if s.ShutdownEnd != nil {
		fmt.Fprintf(w, "shutdown\t%s, %s\n", s.ShutdownEnd.Outcome, s.ShutdownEnd.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printLimits(out, &s.Limits)
}

func printLimits(out io.Writer, l *admin.Limits) error {
	bytesOf := func(n int64) string {
		if n < 0 {
			return "no bound"
		}
		return fmt.Sprintf("%d bytes", n)
	}
	_, err := fmt.Fprintf(out, "limits of moves: to one node %s, to all %s; pieces of %d bytes; %d leave and %d are restored at once\n",
		bytesOf(l.LinkBytes), bytesOf(l.NodeBytes), l.ChunkBytes, l.MaxMoves, l.MaxRestores)
	return err
}
