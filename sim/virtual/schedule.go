package virtual

import (
	"math"
	"slices"
)

// add puts a fault on the list.
func (r *Robot) add(f Fault) error {
	r.nextID++
	e, err := newEffect(f, r.nextID, r.time())
	if err != nil {
		return err
	}
	r.effects = append(r.effects, e)
	return nil
}

// schedule begins and ends faults; it is called after each step, so that what begins touches the state of that step.
func (r *Robot) schedule() {
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
		} else if e.k.physics && e.k.name != "drop_command" { // its samples are steps
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
	r.begin("fault").text("kind", e.k.name).flag("on", true).text("fault", e.f.String()).count("id", int64(e.id)).end()
	p := e.p
	switch e.k.name {
	case "push":
		sin, cos := math.Sincos(r.yaw() + p["dir"]*math.Pi/180)
		e.force = [3]float64{p["n"] * cos, p["n"] * sin, 0}
	case "kick":
		sin, cos := math.Sincos(r.yaw())
		r.check(r.sim.AddVelocity([3]float64{cos*p["vx"] - sin*p["vy"], sin*p["vx"] + cos*p["vy"], p["vz"]}))
	case "friction":
		r.check(r.sim.SetFriction(p["mu"]))
	case "restart":
		r.restart(t + p["down"])
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
		r.check(r.sim.SetFriction(r.cfg.Body.Friction))
	case "sport_returns":
		r.sport = false
		r.closeHigh()
	}
	r.begin("fault").text("kind", e.k.name).flag("on", false).text("fault", e.f.String()).count("id", int64(e.id)).end()
}

// check logs what physics or the system refused.
func (r *Robot) check(err error) {
	if err != nil {
		r.begin("error").text("error", err.Error()).end()
	}
}

// restart is the robot's computer starting anew; it was laid down before.
func (r *Robot) restart(downTo float64) {
	r.tick, r.downTo, r.class = 0, downTo, ClassNone
	r.n.torqueTick, r.n.dampingTick, r.n.torqueAfter = -1, -1, 0
	stood, walked, falls := r.ref.stoodAt, r.ref.walkedAt, r.ref.falls
	*r.ref = *newReferee()
	r.ref.stoodAt, r.ref.walkedAt, r.ref.falls = stood, walked, falls
	r.closeHigh()
	r.cmd, r.late, r.modes, r.hasCmd, r.sport = limp(), nil, [len(r.modes)]byte{}, false, false
	r.check(r.sim.SetState(r.folded))
	r.sim.Read(&r.st)
	r.sense.lastDq = r.st.Dq
	r.sample.Tick = r.tick
}

// dropped draws whether a command is lost.
func (r *Robot) dropped() bool {
	lost := false
	for _, e := range r.effects {
		if e.on && e.k.name == "drop_command" {
			lost = r.hit(e) || lost
			r.used(e)
		}
	}
	return lost
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

// applyPush gives physics the sum of the pushes in force.
func (r *Robot) applyPush() {
	var sum [3]float64
	for _, e := range r.effects {
		if e.on && e.k.name == "push" {
			for i := range sum {
				sum[i] += e.force[i]
			}
		}
	}
	if sum != r.pushed {
		r.pushed = sum
		r.check(r.sim.SetPush(sum, [3]float64{}))
	}
}

// yaw is where the robot heads, rad.
func (r *Robot) yaw() float64 {
	m := rotation(r.st.Quat)
	return math.Atan2(m[1][0], m[0][0])
}
