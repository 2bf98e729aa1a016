// Package faultproxy is the roads between nodes in tests: each record passes through it, and
// may be the one at which a link is cut or stalls.
package faultproxy
