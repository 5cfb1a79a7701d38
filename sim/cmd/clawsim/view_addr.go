package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// listenView opens ADDR, "HOST:PORT". A HOST that is left out is loopback: other machines are served only when ADDR names an
// address that they reach, and then open says so.
func listenView(addr string) (l net.Listener, open bool, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, false, fmt.Errorf("--view %q: want HOST:PORT, for example 127.0.0.1:8090", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(n, 10) {
		return nil, false, fmt.Errorf("--view %q: port %q, want 0..65535", addr, port)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if l, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return nil, false, fmt.Errorf("--view %q: %w", addr, err)
	}
	return l, !l.Addr().(*net.TCPAddr).AddrPort().Addr().Unmap().IsLoopback(), nil
}

// hosts are the names under which a server may be asked.
type hosts struct {
	port uint16
	open bool // to other machines: under any of its addresses
	own  []string
}

// newHosts allows "localhost" and loopback addresses, and for an open server every address, the machine's name and the one
// ADDR was given with.
func newHosts(addr string, l net.Listener, open bool) *hosts {
	h := &hosts{port: l.Addr().(*net.TCPAddr).AddrPort().Port(), open: open, own: []string{"localhost"}}
	if open {
		if name, err := os.Hostname(); err == nil {
			h.own = append(h.own, name, name+".local")
		}
		if name, _, err := net.SplitHostPort(addr); err == nil && name != "" {
			h.own = append(h.own, name)
		}
	}
	return h
}

// check refuses a Host header that does not name this server: a page whose own name was made to resolve to us (DNS rebinding)
// has such. An address cannot be rebound.
func (h *hosts) check(host string) error {
	name, port, err := net.SplitHostPort(host)
	if err != nil { // no port: that of http
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "80"
	}
	if port == strconv.Itoa(int(h.port)) {
		if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" && (h.open || ip.Unmap().IsLoopback()) {
			return nil
		}
		for _, own := range h.own {
			if strings.EqualFold(name, own) {
				return nil
			}
		}
	}
	return fmt.Errorf("header Host is %.80q, want this server's, for example 127.0.0.1:%d", host, h.port)
}

// checkOrigin refuses what a browser sends for a page of another site.
func checkOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, "http://"+r.Host) {
			return fmt.Errorf("header Origin is %.80q, want none or %.80q", origin, "http://"+r.Host)
		}
	}
	return nil
}
