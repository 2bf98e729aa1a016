package main

import (
	"net"
	"strconv"
)

// freeAddr returns an address of the loopback that nobody listens on.
func freeAddr() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func splitAddr(addr string) (host string, port int) {
	host, p, err := net.SplitHostPort(addr)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil {
		panic(err)
	}
	return host, port
}
