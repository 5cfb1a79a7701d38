package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const onlyLoopback = "until access control exists only loopback is served, for example 127.0.0.1:8080"

// resolveTimeout bounds the look-up of a host name in CheckAddr.
const resolveTimeout = 2 * time.Second

// CheckAddr refuses an address to listen on unless it is HOST:PORT with a host
// that is, or resolves only to, loopback. The error names the address.
func CheckAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("httpapi: address %q: want HOST:PORT, for example 127.0.0.1:8080", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("httpapi: address %q: port %q, want 0..65535", addr, port)
	} else if port != strconv.FormatUint(n, 10) {
		return fmt.Errorf("httpapi: address %q: port %q, want it written %d", addr, port, n)
	}
	if host == "" {
		return fmt.Errorf("httpapi: address %q means every interface: %s", addr, onlyLoopback)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if !isLoopback(ip) {
			return fmt.Errorf("httpapi: address %q is not loopback: %s", addr, onlyLoopback)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("httpapi: address %q: %w", addr, err)
	}
	for _, ip := range ips {
		if !isLoopback(ip) {
			return fmt.Errorf("httpapi: address %q resolves to %s, which is not loopback: %s", addr, ip, onlyLoopback)
		}
	}
	return nil
}

func isLoopback(ip netip.Addr) bool { return ip.Unmap().IsLoopback() }

// loopbackPort is the port of a listener that only this machine can reach.
func loopbackPort(l net.Listener) (uint16, error) {
	at, ok := l.Addr().(*net.TCPAddr)
	if !ok || !isLoopback(at.AddrPort().Addr()) {
		return 0, fmt.Errorf("httpapi: listener at %s is not TCP on loopback: %s", l.Addr(), onlyLoopback)
	}
	return at.AddrPort().Port(), nil
}

// checkHost accepts a Host header that names this server at loopback. Anything
// else is a page whose name was made to resolve to us (DNS rebinding).
func checkHost(host string, port uint16) error {
	name, p, err := net.SplitHostPort(host)
	if err != nil { // no port: that of http
		name, p = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "80"
	}
	ip, err := netip.ParseAddr(name)
	named := err != nil && strings.EqualFold(name, "localhost")
	literal := err == nil && ip.Zone() == "" && isLoopback(ip)
	if (!named && !literal) || p != strconv.Itoa(int(port)) {
		return fmt.Errorf("header Host is %q, want this server's, for example 127.0.0.1:%d", host, port)
	}
	return nil
}

// checkOrigin refuses what a browser sends for a page that is not our own.
// Programs send neither header.
func checkOrigin(r *http.Request) error {
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, "http://"+r.Host) {
			return fmt.Errorf("header Origin is %q, want none or %q", origin, "http://"+r.Host)
		}
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return fmt.Errorf("header Sec-Fetch-Site is %q, want none or same-origin", site)
		}
	}
	return nil
}
