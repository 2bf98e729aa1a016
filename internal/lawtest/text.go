package lawtest

import (
	"fmt"
	"regexp"
	"strings"
)

// linesMax is the longest code file, in lines. A longer one holds more than one
// idea.
const linesMax = 700

// FilesAreShort finds code files over linesMax. Generated ones may be longer.
func FilesAreShort(t Tree) []Violation {
	var out []Violation
	for _, f := range append(t.with(".go"), t.with(".lua")...) {
		if n := strings.Count(f.Text, "\n"); n > linesMax && !generated.MatchString(f.Text) {
			out = append(out, Violation{Path: f.Path, Text: fmt.Sprintf("has %d lines, %d are allowed: split it by idea", n, linesMax)})
		}
	}
	return out
}

// generated is the line by which tools mark their output.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// unfinished are the words by which people mark what they left open. Written in
// two parts, or this file would break its own law.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// NothingIsLeftOpen finds marks of unfinished work in code and documents.
func NothingIsLeftOpen(t Tree) []Violation {
	var out []Violation
	for _, f := range t {
		for i, line := range strings.Split(f.Text, "\n") {
			if word := unfinished.FindString(line); word != "" {
				out = append(out, Violation{Path: f.Path, Line: i + 1, Text: word + " marks unfinished work: finish it, or open an issue and say what holds today"})
			}
		}
	}
	return out
}
