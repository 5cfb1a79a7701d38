package virtual

import (
	"math"
	"net/netip"
	"slices"

	"github.com/openclaw-rl/openclaw/agent/wire"
	"github.com/openclaw-rl/openclaw/sim/mujoco"
)

// batteryOff in LowCmd.BMSOff switches a Go1's battery off.
const batteryOff = 0xA5

// Where a bit may flip and nothing but the CRC is wrong: behind the header, and before the bytes that the CRC leaves out and itself.
const (
	headEnd = 22
	crcTail = 7
)

// receive takes one datagram on the low-level port.
func (r *Robot) receive(d *datagram) {
	if r.dark() {
		if r.cfg.Lockstep && len(d.b) == wire.LowCmdSize { // time goes on, also for a computer that is starting
			r.stepUnanswered(d)
		}
		return
	}
	hurt := len(d.b) == wire.LowCmdSize && r.struck("corrupt_command")
	if hurt {
		// Never head, level flag or CRC: what is wrong is the CRC and nothing else.
		d.b[headEnd+r.draw.IntN(wire.LowCmdSize-crcTail-headEnd)] ^= 1 << r.draw.IntN(8)
	}
	var c wire.LowCmd
	form, err := wire.DecodeLowCmd(d.b, &c)
	reason, _ := wire.ReasonOf(err)
	other := err == nil && !r.cfg.CRC.takes(form)
	if other {
		reason = wire.RejectLevel
	}
	if err != nil || other {
		r.reject(reason, d)
		if (hurt || other) && r.cfg.Lockstep {
			r.stepUnanswered(d)
		}
		return
	}
	if !finiteCmd(&c) {
		r.reject(wire.RejectNonFinite, d)
		return
	}
	if r.struck("drop_command") {
		r.n.dropped++
		if t := r.time(); t-r.n.dropAt >= 1 {
			r.n.dropAt = t
			r.begin("reject").text("reason", "dropped").count("count", int64(r.n.dropped)).count("bytes", int64(len(d.b))).text("sender", d.from.String()).end()
		}
		if r.cfg.Lockstep {
			r.stepUnanswered(d)
		}
		return
	}
	arriving := []order{{c, d.from, d.atNs}}
	if r.struck("duplicate_command") {
		arriving = append(arriving, arriving[0])
	}
	arriving = r.reorder(arriving)
	if len(arriving) == 0 {
		if r.cfg.Lockstep {
			r.stepUnanswered(d)
		}
		return
	}
	for i := range arriving {
		r.accept(&arriving[i])
		if !r.cfg.Lockstep {
			r.answer(arriving[i].from)
		}
	}
	if !r.cfg.Lockstep {
		return
	}
	r.advance()
	if !r.ahead(d) {
		for i := range arriving {
			r.answer(arriving[i].from)
		}
	}
}

// stepUnanswered is lockstep's step for a command that nobody obeys; an empty datagram stands for the answer.
func (r *Robot) stepUnanswered(d *datagram) {
	r.advance()
	if !r.ahead(d) {
		r.sendEmpty(d.from)
	}
}

// ahead says, in lockstep, that the sender of d did not wait for an answer: its next command is here. An answer more would
// let it run ahead for good, since each one it gets makes it send again; datagrams beside the states (duplicates, junk)
// bring it there. It invalidates d.b.
func (r *Robot) ahead(d *datagram) bool {
	if r.waiting == nil {
		next, ok := r.low.receive()
		if !ok {
			return false
		}
		r.waiting = &next
	}
	return r.waiting.from == d.from && len(r.waiting.b) == wire.LowCmdSize
}

// reject counts a datagram and logs the first of its reason in each second.
func (r *Robot) reject(reason wire.Reject, d *datagram) {
	r.n.reject[reason]++
	if t := r.time(); t-r.n.rejectAt[reason] >= 1 {
		r.n.rejectAt[reason] = t
		r.begin("reject").text("reason", reason.String()).count("count", int64(r.n.reject[reason])).count("bytes", int64(len(d.b))).
			text("sender", d.from.String()).end()
	}
}

// order is a valid command that has arrived.
type order struct {
	c    wire.LowCmd
	from netip.AddrPort
	atNs int64
}

// accept makes a valid command the one in force.
func (r *Robot) accept(o *order) {
	c, n := &o.c, &r.n
	n.frames++
	if n.frames == 1 {
		n.tickFirst = r.tick
	} else if !r.cfg.Lockstep {
		n.interval.add(max(o.atNs-n.lastRx, 0))
	}
	n.lastRx = max(n.lastRx, o.atNs)
	if o.from != r.sender {
		before := r.sender
		r.sender = o.from
		n.senders++
		if before.IsValid() {
			r.begin("sender").text("sender", o.from.String()).text("before", before.String()).end()
		}
	}
	told := motorCmd(c)
	m := r.wireCommand(told)
	class := Classify(c)
	n.class[slices.Index(classes[:], class)]++
	torques, kp, kd := predicted(&m, &r.st)
	torque := largest(&torques)
	n.maxTorque = max(n.maxTorque, torque)
	lastTorque := n.torqueTick
	if class == ClassTorque {
		if n.torqueTick < 0 || r.class != ClassTorque {
			n.torqueAfter = 0
		}
		n.torqueTick = int64(r.tick)
		n.torqueAfter++
		if r.hasCmd && r.class == ClassTorque {
			for i := range m.Q {
				r.stepMax = max(r.stepMax, math.Abs(told.Q[i]-r.target[i]))
			}
		}
	} else if class == ClassDamping && r.class == ClassTorque {
		n.dampingTick, n.torqueAfter = int64(r.tick), 0
	}
	if class != r.class {
		r.begin("command").text("class", string(class)).text("from", string(r.class)).count("frame", int64(n.frames)).text("sender", o.from.String()).
			number("kp", kp).number("kd", kd).number("torque", torque).count("last_torque_tick", lastTorque).end()
		r.class = class
	}
	if r.cfg.LogEveryFrame {
		l := r.begin("frame").text("class", string(class)).count("frame", int64(n.frames)).number("kp", kp).number("kd", kd).number("torque", torque).
			list("torques", torques[:]...).list("target", told.Q[:]...)
		if !r.cfg.Lockstep { // there logs of equal runs are equal
			l.count("rx_us", o.atNs/1e3)
		}
		l.end()
	}
	r.target = told.Q
	if c.BMSOff == batteryOff {
		r.off = true
		r.letGo("battery switched off")
		return
	}
	if r.sport && !r.sportBack() {
		r.letGo("foreign low-level command")
		r.sport = false
		r.closeHigh()
		return
	}
	if delay := r.commandDelay(); delay > 0 {
		r.late = append(r.late, lateCommand{r.time() + delay, m})
		return
	}
	r.late = nil // none of them may undo a newer one
	r.obey(m)
}

// obey puts a command in force.
func (r *Robot) obey(m mujoco.MotorCmd) {
	r.heard()
	r.cmd, r.modes, r.hasCmd = m, m.Mode, true
}

// letGo takes the motors' power away, until the next command.
func (r *Robot) letGo(cause string) {
	r.cmd, r.late = limp(), nil
	r.modes = [len(r.modes)]byte{}
	r.hasCmd, r.silent = false, false
	r.begin("limp").text("cause", cause).end()
}

// answer sends the newest state, as the faults leave it.
func (r *Robot) answer(to netip.AddrPort) {
	s := r.sample
	t := r.time()
	r.say(&s, t)
	frame, err := wire.AppendLowState(r.frame[:0], &s, wire.FormFor(s.LevelFlag))
	if err != nil { // torque and cells are kept in range where they are made
		r.check(err)
		return
	}
	r.frame = frame
	copies, delay, lost := 1, 0., false
	var extra [][]byte
	for _, e := range r.effects {
		if !e.on || e.k.counts != states {
			continue
		}
		hit := r.hit(e)
		switch e.k.name {
		case "drop_state":
			lost = lost || hit
		case "delay_state":
			delay += e.p["ms"] + e.p["ms_per_s"]*(t-e.start)
		case "duplicate_state":
			if hit {
				copies = 2
			}
		case "corrupt_state":
			if hit {
				frame[headEnd+r.draw.IntN(wire.LowStateSize-crcTail-headEnd)] ^= 1 << r.draw.IntN(8)
			}
		case "foreign_state":
			if hit {
				e.speak(&s, frame, to)
			}
		case "zeros_state":
			clear(frame)
		case "short_state":
			extra = append(extra, slices.Clone(frame[:int(e.p["bytes"])]))
		case "long_state":
			extra = append(extra, append(slices.Clone(frame), make([]byte, int(e.p["bytes"])-len(frame))...))
		case "empty_state":
			extra = append(extra, nil)
		}
		if e.k.name != "reorder" { // which takes what the others leave
			r.used(e)
		}
	}
	if lost {
		r.n.lost++
		copies = 0
	}
	out := append(r.reorderState(to, slices.Repeat([][]byte{frame}, copies)), extra...)
	due := r.nowNs() + int64(delay*1e6)
	for _, b := range out {
		r.post(packet{due, to, b}, delay > 0)
	}
	sent := r.flush(r.nowNs(), to)
	if delay == 0 {
		sent += len(out)
	}
	if r.cfg.Lockstep && sent == 0 {
		r.sendEmpty(to)
	}
}

// say makes of a sound robot's state what this one says: what a person does comes first, so that sensors and wires are as wrong for it
// whether they were so before or after.
func (r *Robot) say(s *wire.LowState, t float64) {
	for _, person := range [...]bool{true, false} {
		for _, e := range r.effects {
			if e.on && e.k.person == person {
				e.alter(s, t)
			}
		}
	}
}

// speak sends a state from the address of foreign_state.
func (e *effect) speak(s *wire.LowState, frame []byte, to netip.AddrPort) {
	if e.foreign == nil { // the system refused it, as the log says
		return
	}
	b := slices.Clone(frame)
	switch e.p["what"] {
	case 1:
		lie := *s
		lie.Tick += 100
		tiltIMU(&lie.IMU, 0, math.Pi/2, true)
		var err error
		if b, err = wire.AppendLowState(nil, &lie, wire.FormFor(lie.LevelFlag)); err != nil {
			return
		}
	case 2:
		for i := range b {
			b[i] = byte(e.noise.Uint32())
		}
	}
	e.foreign.send(b, to)
}

// silence closes that address.
func (e *effect) silence() {
	if e.foreign != nil {
		e.foreign.close()
		e.foreign = nil
	}
}

// hit draws whether a fault with a share touches this frame; one without always does.
func (r *Robot) hit(e *effect) bool {
	p, drawn := e.p["p"]
	return !drawn || r.draw.Float64() < p
}

// used counts a sample of a fault that lasts a number of states.
func (r *Robot) used(e *effect) {
	if e.left == 0 {
		return
	}
	if e.left--; e.left == 0 {
		r.finish(e)
	}
}

// post sends at once, or keeps a copy for later, in the order in which they are due.
func (r *Robot) post(p packet, later bool) {
	if !later {
		r.send(p)
		return
	}
	p.b = slices.Clone(p.b)
	at, _ := slices.BinarySearchFunc(r.outbox, p.dueNs+1, func(q packet, due int64) int {
		if q.dueNs < due {
			return -1
		}
		return 1
	})
	r.outbox = slices.Insert(r.outbox, at, p)
}

// flush sends what is due, and says how many went to one receiver.
func (r *Robot) flush(nowNs int64, to netip.AddrPort) (sent int) {
	for len(r.outbox) > 0 && r.outbox[0].dueNs <= nowNs {
		p := r.outbox[0]
		r.send(p)
		r.outbox = r.outbox[1:]
		if p.to == to {
			sent++
		}
	}
	return sent
}

func (r *Robot) send(p packet) {
	if r.low.send(p.b, p.to) && len(p.b) == wire.LowStateSize {
		r.n.answered++
	}
}

// sendEmpty stands for a lost state in lockstep, so that the other side's clock goes on.
func (r *Robot) sendEmpty(to netip.AddrPort) { r.low.send(nil, to) }

// serveHigh answers what has come to sport mode.
func (r *Robot) serveHigh() {
	for r.high != nil {
		d, ok := r.high.receive()
		if !ok {
			return
		}
		if r.dark() {
			continue
		}
		var c wire.HighCmd
		if _, err := wire.DecodeHighCmd(d.b, &c); err != nil {
			reason, _ := wire.ReasonOf(err)
			r.reject(reason, &d)
			continue
		}
		r.n.high++
		mode := uint8(wire.HighModeIdle)
		if c.Mode == wire.HighModeForceStand {
			mode = wire.HighModeForceStand
		}
		var s wire.HighState
		r.sense.high(&s, &r.sample, &r.st, mode)
		if frame, err := wire.AppendHighState(nil, &s, wire.FormFor(s.LevelFlag)); err == nil {
			r.high.send(frame, d.from)
		}
	}
}

func (r *Robot) closeHigh() {
	if r.high != nil {
		r.high.close()
		r.high = nil
	}
}
