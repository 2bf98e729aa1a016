package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zlnode/zlnode/internal/admin"
)

// relocateOptions are the flags of `zlnode relocate`.
type relocateOptions struct {
	door
	mode    string
	version string
	timeout time.Duration
	watch   bool
	safe    bool
}

func relocateCommand() *cobra.Command {
	o := &relocateOptions{}
	cmd := o.command("relocate", "Move all that lives at a node to others", `It begins, and with --watch is shown to its end; an interrupt ends the show alone. Exit status 0: all
has left, or without --watch: it has begun; 4: it is blocked, and the node serves again.

`, o.run)
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", "", "maintenance: to nodes of the same version; rolling: to those of --target-version")
	f.StringVar(&o.version, "target-version", "", "`version` of the application that targets have; means --mode rolling")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "how long it may take, a `duration`")
	f.BoolVar(&o.watch, "watch", false, "show how far it is, until its end")
	f.BoolVar(&o.safe, "safe", false, "with --watch: until no message follows what has left, too")
	return cmd
}

func (o *relocateOptions) check() error {
	switch {
	case o.timeout < time.Millisecond:
		return fmt.Errorf("--timeout %v is less than 1ms", o.timeout)
	case o.safe && !o.watch:
		return errors.New("--safe is of --watch: add that, or leave --safe out")
	case o.mode == "" && o.version != "":
		o.mode = admin.ModeRolling
	}
	return nil
}

func (o *relocateOptions) run(ctx context.Context, c *admin.Client, out io.Writer) error {
	if err := o.check(); err != nil {
		return err
	}
	ask, cancel := soon(ctx)
	reply, err := c.Relocate(ask, admin.RelocateRequest{Mode: o.mode, TargetVersion: o.version, TimeoutMS: o.timeout.Milliseconds()}, 0)
	cancel()
	switch {
	case err != nil:
		return err
	case !o.watch:
		if o.json {
			err = json.NewEncoder(out).Encode(reply)
		} else if reply.Result == nil {
			_, err = fmt.Fprintln(out, "the relocation has begun")
		}
		return errors.Join(err, o.ended(out, reply.Result))
	}
	r := reply.Relocation
	if result := reply.Result; result != nil && (r == nil || r.Result == nil || *r.Result != *result) {
		if o.json { // of this call alone, as when another relocation is under way
			err = json.NewEncoder(out).Encode(reply)
		}
		return errors.Join(err, o.ended(out, result))
	}
	return o.follow(ctx, c, out, r)
}

// follow shows a relocation to its end.
func (o *relocateOptions) follow(ctx context.Context, c *admin.Client, out io.Writer, r *admin.Relocation) error {
	v := relocationView{out: out, json: o.json}
	for {
		if err := v.show(r); err != nil {
			return err
		}
		over := r.Result != nil && !r.RunsOn
		if over && (!o.safe || r.SafeToShutdown || r.Result.Outcome != admin.Relocated) {
			return o.ended(out, r.Result)
		}
		ask, cancel := context.WithTimeout(ctx, askWait+waitSlack)
		next, err := c.Relocation(ask, r.Seen, askWait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted; the relocation goes on")
		case err != nil:
			return err
		}
		r = &next
	}
}

// ended tells the result, which is nil if it is not known yet, and is the command's.
func (o *relocateOptions) ended(out io.Writer, r *admin.Result) error {
	switch {
	case r == nil:
		return nil
	case !o.json:
		line := r.Outcome
		if r.Outcome != admin.Relocated {
			line += ": " + r.Reason
		}
		if r.Text != "" {
			line += ": " + r.Text
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if r.Outcome != admin.Relocated {
		return errBlocked
	}
	return nil
}

// relocationView prints what is new of a relocation, a line for each.
type relocationView struct {
	out   io.Writer
	json  bool
	last  string
	named map[string]bool // the objects of which it was said that they are blocked
}

func (v *relocationView) show(r *admin.Relocation) error {
	if v.json {
		return json.NewEncoder(v.out).Encode(r)
	}
	if v.named == nil {
		v.named = map[string]bool{}
	}
	line := progressText(r, time.Now())
	if r.Result == nil && line != v.last {
		if _, err := fmt.Fprintln(v.out, line); err != nil {
			return err
		}
	}
	v.last = line
	for _, b := range r.Blocked {
		name := b.Kind + " " + b.ID
		if v.named[name] {
			continue
		}
		v.named[name] = true
		if _, err := fmt.Fprintf(v.out, "blocked: %s %q: %s%s\n", b.Kind, b.ID, b.Reason, behindColon(b.Text)); err != nil {
			return err
		}
	}
	return nil
}

// progressText is a relocation in one line.
func progressText(r *admin.Relocation, now time.Time) string {
	var all admin.Units
	for _, u := range r.Units {
		all.Total += u.Total
		all.Left += u.Left
		all.Moving += u.Moving
		all.Blocked += u.Blocked
		all.Lost += u.Lost
	}
	words := []string{fmt.Sprintf("%d of %d moved, %d moving, %d to go, %d blocked", all.Left, all.Total, all.Moving,
		max(all.Total-all.Left-all.Moving-all.Blocked-all.Lost, 0), all.Blocked)}
	if all.Total == 0 && r.Result == nil {
		words[0] = "not counted yet"
	}
	if all.Lost > 0 {
		words = append(words, fmt.Sprintf("%d at no node that is known", all.Lost))
	}
	switch {
	case r.Result != nil:
		words = append(words, r.Result.Outcome+behindColon(reasonOf(r.Result)))
		if r.RunsOn {
			words = append(words, "members of spots yet follow these")
		}
		if r.SafeToShutdown {
			words = append(words, "safe to shut down")
		}
	case r.EstimatedEnd != nil:
		words = append(words, fmt.Sprintf("ends in about %v", max(r.EstimatedEnd.Sub(now), 0).Round(time.Second)))
	default:
		words = append(words, fmt.Sprintf("%v left of its time", max(r.Deadline.Sub(now), 0).Round(time.Second)))
	}
	return strings.Join(words, "; ")
}

func reasonOf(r *admin.Result) string {
	if r.Outcome == admin.Relocated {
		return ""
	}
	return r.Reason
}

func behindColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
