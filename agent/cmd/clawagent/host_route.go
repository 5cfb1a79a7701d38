package main

import (
	"context"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/link"
	"github.com/openclaw-rl/openclaw/agent/wire"
)

// terminal says whether somebody looks at w.
func terminal(w io.Writer) bool {
	for {
		under, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			break
		}
		w = under.Unwrap()
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// clockReading is one moment on this computer's clocks.
type clockReading struct {
	wallNs, monoNs, rawNs int64
	withinNs              int64 // the three were read within
	// synced says that the kernel holds the time of day to be right; known is false where the system does not tell.
	synced, known bool
}

func readClocks() (r clockReading) {
	read := func(id int32) int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(id, &ts); err != nil {
			return 0
		}
		return ts.Nano()
	}
	for try := range 20 { // a busy machine may hold this thread up between two of them
		before := read(unix.CLOCK_MONOTONIC)
		wall, raw := read(unix.CLOCK_REALTIME), read(unix.CLOCK_MONOTONIC_RAW)
		if within := read(unix.CLOCK_MONOTONIC) - before; try == 0 || within < r.withinNs {
			r.wallNs, r.monoNs, r.rawNs, r.withinNs = wall, before, raw, within
		}
	}
	const staUnsync = 0x0040 // timex.h
	var t unix.Timex
	if state, err := unix.Adjtimex(&t); err == nil {
		r.known, r.synced = true, state != unix.TIME_ERROR && t.Status&staUnsync == 0
	}
	return r
}

// clocks compares two moments, between which the doctor did its work.
func (d *diagnosis) clocks(from, to clockReading) {
	const (
		stepped = int64(10e6) // ns that a time of day has moved against the monotonic clock
		rate    = 1e-3        // of the monotonic clock against the raw one; slewing reaches 500 ppm
		enough  = int64(50e6) // ns, for a rate
	)
	well := true
	mono, raw := to.monoNs-from.monoNs, to.rawNs-from.rawNs
	unsure := float64(from.withinNs + to.withinNs)
	if off := to.wallNs - from.wallNs - mono; off > stepped || off < -stepped {
		well = false
		d.add(levelWarning, "clock_steps", "", "the time of day moved by %.3f s within %.1f s", float64(off)/1e9, float64(mono)/1e9)
	}
	if mono <= 0 || raw > enough && math.Abs(float64(mono-raw)) > rate*float64(raw)+unsure {
		well = false
		d.add(levelError, "clock_monotonic", "", "CLOCK_MONOTONIC moved by %.6f s where CLOCK_MONOTONIC_RAW moved by %.6f s", float64(mono)/1e9, float64(raw)/1e9)
	}
	if to.known && !to.synced {
		well = false
		d.add(levelWarning, "clock_unsynchronised", "", "the kernel does not hold this computer's time of day to be synchronised")
	}
	if well {
		d.add(levelOK, "clock", "", "CLOCK_MONOTONIC counts, the time of day is not stepped")
	}
}

// Room where journal and results go, bytes.
const (
	diskLow  = 200 << 20
	diskFull = 4 << 20
)

// disk looks at the folders that are written to.
func (d *diagnosis) disk(cfg *config) {
	folders := []string{filepath.Clean(cfg.contactDir())}
	if journal := filepath.Dir(cfg.Log); cfg.Log != "" && journal != folders[0] {
		folders = append(folders, journal)
	}
	bad := false
	for _, folder := range folders {
		bad = d.folder(folder) || bad
	}
	if !bad {
		d.add(levelOK, "disk", "", "there is room in %s", strings.Join(folders, " and "))
	}
}

// folder looks at one, or at the nearest above it that is there and in which it would be made.
func (d *diagnosis) folder(folder string) (bad bool) {
	at, err := filepath.Abs(folder)
	if err != nil {
		at = folder
	}
	for {
		if _, err := os.Stat(at); err == nil || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		d.add(levelWarning, "disk_unwritable", "", "%s cannot be written: %v", folder, err)
		return true
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(at, &fs); err != nil {
		d.add(levelWarning, "disk_unwritable", "", "%s cannot be looked at: %v", folder, err)
		return true
	}
	free := int64(fs.Bavail) * fs.Bsize
	if free >= diskLow {
		return false
	}
	l := levelWarning
	if free < diskFull {
		l = levelError
	}
	d.add(l, "disk_low", "", "%.1f MB free in %s", float64(free)/(1<<20), folder)
	return true
}

// Figures of the way: that of a cable is well below a millisecond, and a state older than safety.state_warn_ms is warned of.
const (
	pings       = 50
	pingWait    = 100 * time.Millisecond
	pingsLimit  = time.Second
	slowMedian  = 3 * time.Millisecond
	slowTenth   = 6 * time.Millisecond // the slowest tenth
	lostShare   = 0.01
	lostAtLeast = 3
)

// route measures the way to the robot: single damping frames, each answered before the next leaves. Every state goes to take.
func (d *diagnosis) route(ctx context.Context, udp *link.UDP, frame []byte, take func(arrivedNs int64, s *wire.LowState)) error {
	name := "unknown"
	if source, err := udp.SourceAddr(); err == nil {
		name = interfaceOf(source.Addr())
		switch wireless := radio("/sys", name); wireless {
		case "":
		case name:
			d.add(levelWarning, "route_wireless", "", "%s, which leads to the robot, is a wireless interface", name)
		default:
			d.add(levelWarning, "route_wireless", "", "%s, which leads to the robot, stands on %s, a wireless interface", name, wireless)
		}
	}
	var rx wire.LowState
	var took []time.Duration
	for start, n := link.Now(), 0; n < pings && link.Now()-start < pingsLimit.Nanoseconds(); n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n == 5 && len(took) == 0 {
			return nil // it does not answer at all, which is named elsewhere
		}
		sent := link.Now()
		if udp.Send(frame) != nil {
			return nil
		}
		for answered := false; !answered && link.Now()-sent < pingWait.Nanoseconds(); {
			udp.Wait(sent + pingWait.Nanoseconds() - link.Now())
			for {
				arrivedNs, ok := udp.Receive(&rx, link.Now())
				if !ok {
					break
				}
				take(arrivedNs, &rx)
				if !answered {
					answered = true
					took = append(took, time.Duration(arrivedNs-sent))
				}
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	median, tenth := took[len(took)/2], took[len(took)*9/10]
	if median > slowMedian || tenth > slowTenth {
		d.add(levelWarning, "route_slow", "", "by %s, from frame to state it takes %.1f ms in the middle, %.1f ms for the slowest tenth", name,
			float64(median)/1e6, float64(tenth)/1e6)
	} else {
		d.add(levelOK, "route", "", "by %s, from frame to state it takes %.2f ms in the middle", name, float64(median)/1e6)
	}
	return nil
}

// loss counts frames that nothing came back for.
func (d *diagnosis) loss(udp *link.UDP) {
	var rx wire.LowState
	for end := link.Now() + pingWait.Nanoseconds(); link.Now() < end && udp.Wait(end-link.Now()); {
		for {
			if _, ok := udp.Receive(&rx, link.Now()); !ok {
				break
			}
		}
	}
	c := udp.Counters()
	if c.Accepted == 0 || c.Received >= c.Sent {
		return
	}
	if lost := c.Sent - c.Received; lost >= lostAtLeast && float64(lost) > lostShare*float64(c.Sent) {
		d.add(levelWarning, "route_lossy", "", "%d of %d frames were not answered", lost, c.Sent)
	}
}

// interfaceOf names the network interface that has an address.
func interfaceOf(a netip.Addr) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return "unknown"
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, has := range addrs {
			if p, err := netip.ParsePrefix(has.String()); err == nil && (p.Addr() == a || i.Flags&net.FlagLoopback != 0 && p.Contains(a)) {
				return i.Name
			}
		}
	}
	return "unknown"
}

// radio names the wireless interface that an interface is, or that it stands on, by the kernel's tree at sys: a bridge, a bond, a VLAN or a
// macvlan has a link lower_NAME for each one below it, and a bridge its ports in brif. "": none.
func radio(sys, name string) string {
	below := []string{name}
	for i := 0; i < len(below); i++ { // grows while it is gone through; no interface is looked at twice
		name := below[i]
		if name == "" || strings.ContainsRune(name, '/') {
			continue
		}
		dir := filepath.Join(sys, "class", "net", name)
		for _, mark := range []string{"wireless", "phy80211"} {
			if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
				return name
			}
		}
		// What cannot be read has nothing below it.
		entries, _ := os.ReadDir(dir)
		ports, _ := os.ReadDir(filepath.Join(dir, "brif"))
		for _, e := range entries {
			if lower, is := strings.CutPrefix(e.Name(), "lower_"); is && !slices.Contains(below, lower) {
				below = append(below, lower)
			}
		}
		for _, e := range ports {
			if !slices.Contains(below, e.Name()) {
				below = append(below, e.Name())
			}
		}
	}
	return ""
}
