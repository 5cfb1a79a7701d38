package virtual

import (
	"math"
	"net/netip"
	"slices"

	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// add puts a fault on the list.
func (r *Robot) add(f Fault) error {
	r.nextID++
	e, err := newEffect(f, r.nextID, r.time(), r.cfg.Seed)
	if err != nil {
		return err
	}
	r.effects = append(r.effects, e)
	return nil
}

// schedule begins and ends faults; it is called after each step, so that what begins touches the state of that step, and in lockstep
// also between two steps, for what has been injected. Only a step is a sample of what counts steps.
func (r *Robot) schedule(stepped bool) {
	if r.inbox.Load() && r.mu.TryLock() {
		for _, f := range r.inject {
			_ = r.add(f) // Inject has validated it
		}
		r.inject = r.inject[:0]
		r.inbox.Store(false)
		r.mu.Unlock()
	}
	t := r.time()
	for _, e := range r.effects {
		if !e.on {
			continue
		}
		if t+1e-9 >= e.end {
			r.finish(e)
		} else if stepped && e.k.counts == steps {
			r.used(e)
		}
	}
	for i := 0; i < len(r.effects); i++ {
		if e := r.effects[i]; e.due(t, r.ref) {
			r.start(e, t)
		}
	}
	r.effects = slices.DeleteFunc(r.effects, func(e *effect) bool { return e.over })
}

func (r *Robot) start(e *effect, t float64) {
	if e.f.Every == 0 || e.start < t-stepSeconds {
		e.start = t // what drift and growth count from
	}
	e.begin(t)
	p := e.p
	r.record(e, true)
	switch e.k.name {
	case "hand":
		e.from = r.st.Q[int(p["joint"])]
	case "foreign_state":
		from, other := otherAddress(p["from"])
		if !other {
			from = r.low.addr.Addr()
		}
		var err error
		e.foreign, err = listen(netip.AddrPortFrom(from, 0))
		r.check(err)
	case "push":
		sin, cos := math.Sincos(r.yaw() + p["dir"]*math.Pi/180)
		e.force = [3]float64{p["n"] * cos, p["n"] * sin, 0}
	case "kick":
		sin, cos := math.Sincos(r.yaw())
		r.check(r.sim.AddVelocity([3]float64{cos*p["vx"] - sin*p["vy"], sin*p["vx"] + cos*p["vy"], p["vz"]}))
	case "friction":
		r.floor()
	case "restart":
		r.restart(max(r.downTo, t+p["down"]))
	case "sport_returns":
		r.sport = true
		if r.high == nil {
			r.check(r.openHigh())
		}
	case "clear":
		for _, other := range r.effects {
			if other == e {
				continue
			}
			if other.on {
				r.finish(other)
			}
			other.over = true
		}
	}
	if e.k.once {
		e.finish()
	}
}

// finish ends a fault and takes back what it did to the robot.
func (r *Robot) finish(e *effect) {
	e.finish()
	e.state.Head = [2]byte{}
	switch e.k.name {
	case "friction":
		r.floor()
	case "sport_returns":
		r.sportEnds()
	case "foreign_state":
		e.silence()
	case "reorder", "reorder_command":
		r.release(e)
	}
	r.record(e, false)
}

// floor gives physics the friction of the fault that began last of those in force, or the floor's own.
func (r *Robot) floor() {
	mu, began := r.cfg.Body.Friction, math.Inf(-1)
	for _, e := range r.effects {
		if e.on && e.k.name == "friction" && e.start >= began {
			mu, began = e.p["mu"], e.start
		}
	}
	r.check(r.sim.SetFriction(mu))
}

// sportEnds ends sport mode, unless a fault holds it.
func (r *Robot) sportEnds() {
	if r.sport = r.sportBack(); !r.sport {
		r.closeHigh()
	}
}

// record logs that a fault begins or ends.
func (r *Robot) record(e *effect, on bool) {
	l := r.begin("fault").text("kind", e.k.name).flag("on", on).text("fault", e.f.String()).count("id", int64(e.id))
	if e.k.person {
		l.flag("person", true)
	}
	l.end()
}

// check logs what physics or the system refused.
func (r *Robot) check(err error) {
	if err != nil {
		r.begin("error").text("error", err.Error()).end()
	}
}

// restart is the robot's computer starting anew; it was laid down before, unless it hangs.
func (r *Robot) restart(downTo float64) {
	r.tick, r.downTo, r.class = 0, downTo, ClassNone
	r.n.torqueTick, r.n.dampingTick, r.n.torqueAfter = -1, -1, 0
	stood, walked, falls := r.ref.stoodAt, r.ref.walkedAt, r.ref.falls
	*r.ref = *newReferee()
	r.ref.stoodAt, r.ref.walkedAt, r.ref.falls = stood, walked, falls
	r.sportEnds()
	r.cmd, r.late, r.modes, r.hasCmd, r.silent = limp(), nil, [len(r.modes)]byte{}, false, false
	if r.ref.hung = r.cfg.Boot == BootHung; !r.ref.hung { // which hangs on
		r.check(r.sim.SetState(r.folded))
		r.pushed = mujoco.Hands{}
		r.sim.Read(&r.st)
		r.sense.lastDq = r.st.Dq
	}
	r.sample.Tick = r.tick
}

// struck draws whether a command suffers from a kind of fault.
func (r *Robot) struck(kind string) bool {
	hit := false
	for _, e := range r.effects {
		if e.on && e.k.name == kind {
			hit = r.hit(e) || hit
			r.used(e)
		}
	}
	return hit
}

// commandDelay is how late a command takes effect, s.
func (r *Robot) commandDelay() (s float64) {
	for _, e := range r.effects {
		if e.on && e.k.name == "delay_command" {
			s += e.p["ms"] / 1e3
		}
	}
	return s
}

// sportBack says whether sport mode holds the motors whatever the low level says.
func (r *Robot) sportBack() bool {
	return slices.ContainsFunc(r.effects, func(e *effect) bool { return e.on && e.k.name == "sport_returns" })
}

// yaw is where the robot heads, rad.
func (r *Robot) yaw() float64 {
	m := rotation(r.st.Quat)
	return math.Atan2(m[1][0], m[0][0])
}
