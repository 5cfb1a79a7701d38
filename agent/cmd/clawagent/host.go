package main

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// rights says whether this program may have what the 500 Hz loop wants of the
// system. Without, it runs, and is late under load.
func (d *diagnosis) rights(priority int) {
	var refused []string
	if err := fifo(priority); err != nil {
		refused = append(refused, fmt.Sprintf("SCHED_FIFO %d: %v", priority, err))
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_ONFAULT); err != nil {
		refused = append(refused, fmt.Sprintf("locked memory: %v", err))
	} else {
		_ = unix.Munlockall() // only asked whether it may
	}
	if len(refused) > 0 {
		d.add(levelWarning, "realtime", "",
			"the system refuses real-time rights (%s): the loop will be late under load", strings.Join(refused, "; "))
		return
	}
	d.add(levelOK, "realtime", "", "SCHED_FIFO %d and locked memory are allowed", priority)
}

// fifo tries to raise a thread, which then ends; 0 is ordinary priority, for all.
func fifo(priority int) error {
	if priority == 0 {
		return nil
	}
	answer := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine, its priority with it
		answer <- unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: uint32(priority)}, 0)
	}()
	return <-answer
}

// arp puts down what the kernel knows of the way to the robot's two computers.
func (d *diagnosis) arp(cfg *config) {
	for _, a := range []netip.Addr{cfg.low().Addr(), cfg.high().Addr()} {
		if a.IsLoopback() {
			continue
		}
		f, err := os.Open("/proc/net/arp")
		if err != nil {
			return // a system without it; the findings stand without
		}
		d.ARP[a.String()] = arpEntry(f, a)
		f.Close()
	}
}

// arpEntry is the kernel's hardware address for an IPv4 neighbour, from the text of /proc/net/arp:
//
//	IP address       HW type     Flags       HW address            Mask     Device
//	192.168.123.10   0x1         0x2         00:80:e1:00:00:00     *        eth0
func arpEntry(table io.Reader, a netip.Addr) string {
	for lines := bufio.NewScanner(table); lines.Scan(); {
		c := strings.Fields(lines.Text())
		switch {
		case len(c) < 6 || c[0] != a.String():
		case c[2] == "0x0": // asked, no answer
			return "nobody answers on " + c[5]
		default:
			return c[3] + " on " + c[5]
		}
	}
	return "no entry: this machine's own, behind a router, or never asked"
}
