// Package webtest drives the page of examples/browser in headless Chromium; see `make
// test-web`. It is a module of its own, so that who uses zlnode gets none of what it needs.
package webtest
