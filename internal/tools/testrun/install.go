package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// need makes sure that program can be run: if it is missing it installs
// Debian's packages, as root or by sudo without asking for a password. What
// apt-get prints goes to out.
func need(ctx context.Context, out io.Writer, program string, packages ...string) error {
	if _, err := exec.LookPath(program); err == nil {
		return nil
	}
	commands, err := aptCommands(os.Geteuid() == 0, has, packages)
	if err != nil {
		return fmt.Errorf("%s is missing: %w", program, err)
	}
	fmt.Fprintf(out, "testrun: %s is missing, installing %s\n", program, strings.Join(packages, " "))
	for _, args := range commands {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s is missing and %q failed (%w): install %s by hand and try again",
				program, strings.Join(args, " "), err, strings.Join(packages, " "))
		}
	}
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("%s was installed and is not found: %w", program, err)
	}
	return nil
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// aptCommands returns the commands that install packages: the list of packages
// first, which a fresh machine does not have.
func aptCommands(root bool, has func(program string) bool, packages []string) ([][]string, error) {
	byHand := "install the package " + strings.Join(packages, " ") + " by hand and try again"
	if !has("apt-get") {
		return nil, errors.New("there is no apt-get here: " + byHand)
	}
	var prefix []string
	if !root {
		if !has("sudo") {
			return nil, errors.New("only root can install it, and there is no sudo: " + byHand)
		}
		prefix = []string{"sudo", "--non-interactive", "--preserve-env=DEBIAN_FRONTEND"}
	}
	return [][]string{
		slices.Concat(prefix, []string{"apt-get", "update"}),
		slices.Concat(prefix, []string{"apt-get", "install", "--yes", "--no-install-recommends"}, packages),
	}, nil
}
