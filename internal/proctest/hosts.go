package proctest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// Hosts are a cluster's machines: a network namespace for each process, all on one bridge,
// whose address is the test's own process. Roads between them can be cut one way, taken down
// and made slow, which the processes see as they would see it on machines: no connection is
// closed for them.
//
// They need root, ip, tc and nft.
type Hosts struct {
	tag   string // begins all names
	net   string // of their addresses, less the last byte
	names []string
}

// NewHosts makes the bridge.
func NewHosts() (*Hosts, error) {
	pid := os.Getpid()
	h := &Hosts{tag: fmt.Sprintf("zl%d", pid), net: fmt.Sprintf("10.%d.%d.", 64+pid>>8&63, pid&255)}
	err := errors.Join(
		run("ip", "link", "add", h.tag, "type", "bridge"),
		run("ip", "addr", "add", h.net+"1/24", "dev", h.tag),
		run("ip", "link", "set", h.tag, "up"),
	)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// run runs a command of the network's tools.
func run(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func (h *Hosts) index(name string) int {
	for i, n := range h.names {
		if n == name {
			return i
		}
	}
	return -1
}

// outside is the bridge's end of a host's cable, and also the name of its namespace.
func (h *Hosts) outside(name string) string { return fmt.Sprintf("%s-%d", h.tag, h.index(name)) }

// inside is the host's end.
const inside = "eth0"

// in runs a command at a host.
func (h *Hosts) in(name string, args ...string) error {
	return run(append([]string{"ip", "netns", "exec", h.outside(name)}, args...)...)
}

// Addr is a host's address. One that is not known yet is made; the test's own process is the
// sender.
func (h *Hosts) Addr(name string) (string, error) {
	if name == senderRID {
		return h.net + "1", nil
	}
	i := h.index(name)
	if i < 0 {
		i = len(h.names)
		h.names = append(h.names, name)
		if err := h.add(name, i); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(h.net, i+2), nil
}

func (h *Hosts) add(name string, i int) error {
	out := h.outside(name)
	for _, args := range [][]string{
		{"ip", "netns", "add", out},
		{"ip", "link", "add", out, "type", "veth", "peer", "name", inside, "netns", out},
		{"ip", "link", "set", out, "master", h.tag, "up"},
		{"ip", "-n", out, "addr", "add", fmt.Sprint(h.net, i+2, "/24"), "dev", inside},
		{"ip", "-n", out, "link", "set", inside, "up"},
		{"ip", "-n", out, "link", "set", "lo", "up"},
		{"ip", "netns", "exec", out, "nft", "add table inet road; add chain inet road in { type filter hook input priority 0; }"},
	} {
		if err := run(args...); err != nil {
			return err
		}
	}
	return nil
}

// command is what runs a program at a host.
func (h *Hosts) command(name string, args []string) []string {
	return append([]string{"ip", "netns", "exec", h.outside(name)}, args...)
}

// Deafen has a host hear nothing more of another one, which still hears it.
func (h *Hosts) Deafen(to, from string) error {
	addr, err := h.Addr(from)
	if err != nil {
		return err
	}
	return h.in(to, "nft", "add rule inet road in ip saddr "+addr+" drop")
}

// Listen has it hear all again.
func (h *Hosts) Listen(to string) error { return h.in(to, "nft", "flush chain inet road in") }

// Unplug and Plug take a host's cable out, and put it in again.
func (h *Hosts) Unplug(name string) error { return run("ip", "link", "set", h.outside(name), "down") }

// Plug puts it in again.
func (h *Hosts) Plug(name string) error { return run("ip", "link", "set", h.outside(name), "up") }

// Slow bounds what a host is sent, as tc names rates; "" has it be as fast as it can.
func (h *Hosts) Slow(name, rate string) error {
	out := h.outside(name)
	if rate == "" {
		return run("tc", "qdisc", "del", "dev", out, "root")
	}
	return run("tc", "qdisc", "replace", "dev", out, "root", "tbf", "rate", rate, "burst", "16kb", "latency", "200ms")
}

// Close takes all of them away. Their processes must have ended.
func (h *Hosts) Close() error {
	var err error
	for i := range h.names {
		err = errors.Join(err, run("ip", "netns", "del", fmt.Sprintf("%s-%d", h.tag, i)))
	}
	if _, gone := net.InterfaceByName(h.tag); gone != nil {
		return err
	}
	return errors.Join(err, run("ip", "link", "del", h.tag))
}
