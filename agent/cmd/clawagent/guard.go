package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/openclaw-rl/openclaw/agent/cli"
	"github.com/openclaw-rl/openclaw/agent/control"
	"github.com/openclaw-rl/openclaw/agent/guard"
	"github.com/openclaw-rl/openclaw/agent/link"
)

// guardHeapBytes is where the guard's garbage collector begins to work. A
// message costs some ten kB.
const guardHeapBytes = 48 << 20

func newGuard(loader *cli.Loader[config]) *cobra.Command {
	var asJSON, status, inherited bool
	cmd := &cobra.Command{
		Use:   "guard",
		Short: "Damp the robot when the agent dies or stands still",
		Long: `guard watches the control loop of "clawagent run" from a process of its own. It
holds a duplicate of that one's socket, so when the loop's beat in shared memory
is older than guard.stale_ms, or its process has ended, it sends damping frames
from the address that the robot knows. From then on the loop sends no torque
until a person asks for damp, then for stand.

run starts one by itself. On a robot it has a unit of its own, so that whatever
ends the agent's leaves it alone; run finds it at guard.socket. One guard serves
one robot, for agents of its own user and of root.

SIGINT, SIGTERM and SIGHUP do not end it while the robot is armed. A guard that
run started outlives a killed agent, damps on, and hands over to the next run; it
ends by itself when the agent has ended in order, with the robot's answer that it
is damped, or else when the robot has been silent for ten minutes (ten seconds
where it was a program on this machine and has ended).

Its log, on standard error, says when it tripped and how old the beat was, whom
it killed, and how many frames could not be sent. --status asks the guard that
runs; its user and root may.`,
		Example: `  clawagent guard --robot udp://192.168.123.10:8007
  clawagent guard --robot udp://192.168.123.10:8007 --socket /run/clawagent/guard.sock
  clawagent guard --status --json --robot udp://127.0.0.1:8007`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loader.Load()
			if err != nil {
				return err
			}
			if status {
				return askGuard(cmd, &cfg, asJSON)
			}
			return serveGuard(cmd, &cfg, inherited, asJSON)
		},
	}
	f := cmd.Flags()
	loader.AddFlags(f)
	for flag, key := range map[string]string{"robot": "robot", "socket": "guard.socket", "priority": "guard.priority"} {
		loader.AddKeyFlag(f, flag, key)
	}
	f.BoolVar(&asJSON, "json", false, "print one JSON line when ready and one at the end")
	f.BoolVar(&status, "status", false, "ask the running guard what it does")
	f.BoolVar(&inherited, "inherited", false, "the agent that started this guard is at the other end of descriptor "+strconv.Itoa(guard.FirstFD))
	_ = f.MarkHidden("inherited") // the flag exists
	return cmd
}

// serveGuard is the guard's life.
func serveGuard(cmd *cobra.Command, cfg *config, inherited, asJSON bool) error {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(guardHeapBytes)
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 2) + 1) // the loop's thread keeps one to itself
	ahead := cfg.Guard.Priority > 0 && cli.Ahead()
	// Whoever runs out of memory, it shall not be the guard. Only root may ask for it.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o644)

	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	signal.Ignore(syscall.SIGPIPE) // a terminal that is gone does not end it

	var first *net.UnixConn
	if inherited {
		f := os.NewFile(guard.FirstFD, "descriptor "+strconv.Itoa(guard.FirstFD))
		conn, err := guard.FileConn(f)
		f.Close()
		if err != nil {
			return cli.Usagef("--inherited: %w", err)
		}
		first = conn
	}
	socket := cfg.guardSocket()
	listener, err := guard.Listen(socket)
	if err != nil {
		return declined(first, err)
	}
	realtime := make(chan string, 1)
	g, err := guard.New(guard.Config{
		Robot: cfg.low(), Clock: control.SystemClock{}, Alone: inherited, Priority: cfg.Guard.Priority,
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)).With("guard", os.Getpid()),
		Started: func() string {
			how := control.Urgent(cfg.Guard.Priority, -1)
			realtime <- how
			return how
		},
	})
	if err != nil {
		return declined(first, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(listener, first) }()
	go func() {
		for range asked {
			g.End()
		}
	}()
	how := <-realtime
	if asJSON {
		_ = cli.PrintReady(cmd.OutOrStdout(), map[string]any{"ready": true, "socket": socket, "robot": cfg.low().String(),
			"ahead": ahead, "realtime": how, "pid": os.Getpid()})
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "clawagent: guard of robot %s at %s (%s)\n", cfg.low(), socket, how)
	}
	err = <-ended
	printReport(cmd.OutOrStdout(), g.Report(), asJSON)
	return err
}

// declined tells the agent that started this guard, if one did, why there will be none.
func declined(first *net.UnixConn, why error) error {
	if first != nil {
		guard.Decline(first, why)
	}
	return why
}

func askGuard(cmd *cobra.Command, cfg *config, asJSON bool) error {
	r, err := guard.Ask(cmd.Context(), cfg.guardSocket())
	if errors.Is(err, guard.ErrNoGuard) {
		return cli.NotAvailable(err)
	}
	if err != nil {
		return err
	}
	printReport(cmd.OutOrStdout(), r, asJSON)
	return nil
}

func printReport(w io.Writer, r *guard.Report, asJSON bool) {
	if asJSON {
		_ = cli.PrintJSON(w, r)
		return
	}
	what := "no agent"
	if r.AgentPID != 0 {
		what = fmt.Sprintf("agent %d", r.AgentPID)
	}
	for _, s := range []struct {
		on   bool
		text string
	}{{r.AgentGone, "gone"}, {r.Armed, "armed"}, {r.Latched, "latched"}, {r.Sending, "damping"}, {r.Silent, "robot silent"}} {
		if s.on {
			what += ", " + s.text
		}
	}
	fmt.Fprintf(w, "clawagent: guard %d of robot %s: %s; %d trips, late p50 %.1f p99 %.1f max %.1f us\n",
		r.PID, r.Robot, what, r.Trips, r.LateP50Us, r.LateP99Us, r.LateMaxUs)
}

// guarding is the side of a program that gives the robot torque. It calls join before it binds a socket (the guard may hold the address
// for an agent that was killed), register with that socket, and close when it has ended the epoch, or cannot.
type guarding struct {
	cfg *config
	log *slog.Logger // nil: none; keep needs one

	mu     sync.Mutex
	client *guard.Client // nil: none yet
	closed bool
}

const (
	guardPause = 200 * time.Millisecond
	guardTries = 10 // at one that is about to end
	reapTries  = 5  // more, at one whose agent was killed just now: the kernel may not have done with that one
)

// join connects to the robot's guard, or starts one, and takes the robot's address over from an agent that was killed.
func (g *guarding) join() error {
	c, err := relieve(g.cfg.guardSocket(), g.cfg.low(), g.start)
	if err != nil {
		return err
	}
	g.set(c)
	return nil
}

// relieve connects to the robot's guard and has it let go of an agent that was killed. Where there is none, start makes one; with a nil
// start there is no client then. What a guard says is final, and so is its silence; waited for is one that is just about to end, and one whose
// agent is. A guard of another user is not given the robot: where it ends behind its agent it is relieved, and where it stays it damps on.
func relieve(socket string, robot netip.AddrPort, start func() (*guard.Client, error)) (*guard.Client, error) {
	for again := (waited{}); ; time.Sleep(guardPause) {
		c, err := guard.Dial(socket)
		if errors.Is(err, guard.ErrNoGuard) {
			if start == nil {
				return nil, nil
			}
			c, err = start()
		}
		if err != nil {
			return nil, err
		}
		if start == nil {
			err = c.Take(robot)
		} else {
			err = takeForUse(c, robot)
		}
		if err == nil {
			return c, nil
		}
		if c.Close(); !again.allows(err) {
			return nil, err
		}
	}
}

// takeForUse has a guard let go of an agent that was killed, for one that registers next. Where that is not to be, an untrusted guard lets go
// only if it then ends, and makes room.
func takeForUse(c *guard.Client, robot netip.AddrPort) error {
	untrusted := c.Trusted()
	if untrusted != nil {
		r, err := c.Report()
		if err != nil {
			return err
		}
		if !r.Alone {
			return stays{untrusted}
		}
	}
	if err := c.Take(robot); err != nil {
		return err
	}
	return untrusted
}

// stays is about a guard that makes no room.
type stays struct{ error }

// waited counts what relieve has waited for.
type waited struct{ ends, lives int }

// allows says whether it tries again behind err.
func (w *waited) allows(err error) bool {
	refused := new(guard.Refusal)
	switch {
	case errors.As(err, &refused) && refused.Code == guard.AgentLives:
		w.lives++
		return w.lives <= reapTries
	case errors.As(err, &refused), errors.As(err, new(stays)), errors.Is(err, os.ErrDeadlineExceeded):
		return false
	}
	w.ends++
	return w.ends < guardTries
}

// set makes c the connection, unless close came meanwhile.
func (g *guarding) set(c *guard.Client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.client = c; g.closed {
		c.Close()
	}
}

// close hangs up: the guard takes an agent that has not ended its epoch for dead, and damps in its place.
func (g *guarding) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = true; g.client != nil {
		g.client.Close()
	}
}

func (g *guarding) start() (*guard.Client, error) {
	return guard.Start("/proc/self/exe", append(g.cfg.guardArgs(), "--inherited"), os.Stderr)
}

// guardArgs start a guard as this configuration has it: all that it goes by, and all that its own start checks.
func (c *config) guardArgs() []string {
	return []string{"guard", "--robot", c.Robot, "--socket", c.guardSocket(), "--set", "high=" + c.high().String(),
		"--set", "control.priority=" + strconv.Itoa(c.Control.Priority), "--priority", strconv.Itoa(c.Guard.Priority)}
}

// register passes the robot's socket behind join. The watch belongs to the thread that sends.
func (g *guarding) register(udp *link.UDP, sportIsOff bool) (*guard.Watch, error) {
	w, err := g.client.Register(udp.Fd(), guard.Registration{
		Robot: g.cfg.low(), High: g.cfg.high(), Stale: time.Duration(g.cfg.Guard.StaleMs * 1e6),
		EncryptCRC: g.cfg.Control.EncryptCRC, SportIsOff: sportIsOff,
	})
	if priority, all := g.client.Rights(); err == nil && priority < g.cfg.Guard.Priority && g.log != nil {
		g.log.Warn("the guard has lower rights than configured: a busy machine may hold it up", "guard", w.PID(), "priority", priority, "configured", g.cfg.Guard.Priority, "has", all)
	}
	return w, err
}

// keep gives the loop a guard anew whenever the one that it has is lost. A person then lets the robot stand again.
func (g *guarding) keep(ctx context.Context, loop *control.Loop, udp *link.UDP, sportIsOff bool) {
	for {
		select {
		case <-g.client.Lost():
		case <-ctx.Done():
			return
		}
		g.client.Close()
		g.log.Error("the guard has ended: another is started", "pid", g.client.PID())
		for told := false; ; {
			err := g.join()
			if err == nil {
				var w *guard.Watch
				if w, err = g.register(udp, sportIsOff); err == nil {
					loop.SetGuard(w)
					g.log.Info("guard", "pid", w.PID())
					break
				}
				g.client.Close()
			}
			if !told {
				told = true
				g.log.Error("no guard", "err", err)
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return
			}
		}
	}
}

// dialOrHeld opens the socket to the robot. held says that the robot's guard has the address to send from, for an agent that was killed: it
// lets go when it is relieved, as nobody else would, and the socket is opened then.
func dialOrHeld(ctx context.Context, cfg *config) (udp *link.UDP, held bool, err error) {
	if udp, err = cfg.dial(); !errors.Is(err, unix.EADDRINUSE) {
		return udp, false, err
	}
	r, asked := guard.Ask(ctx, cfg.guardSocket())
	if asked == nil && samePort(r.Local, cfg.Local) {
		return nil, true, nil
	}
	udp, err = cfg.dial() // it may have let go, or ended, since
	if errors.Is(err, unix.EADDRINUSE) && asked != nil && !errors.Is(asked, guard.ErrNoGuard) {
		err = fmt.Errorf("%w; whether the robot's guard holds it is not known: %w", err, asked)
	}
	return udp, false, err
}

// samePort says that both are addresses, with the same port.
func samePort(a, b string) bool {
	x, errA := netip.ParseAddrPort(a)
	y, errB := netip.ParseAddrPort(b)
	return errA == nil && errB == nil && x.Port() == y.Port()
}

// releaseGuard ends what a guard still does for an agent that was killed, for a program that comes without one.
func releaseGuard(cfg *config) error {
	c, err := relieve(cfg.guardSocket(), cfg.low(), nil)
	if c != nil {
		c.Close()
	}
	return err
}
