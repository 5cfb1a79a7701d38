package guard_test

import (
	"testing"

	"github.com/openclaw-rl/openclaw/agent/mutant"
)

// TestMutants: the loop's and the guard's part are changed in one place at a time, and a test of this package must notice. Three drawn by
// seed run every time, all with `make soak PROMISE=mutants`.
func TestMutants(t *testing.T) {
	const loop, requests, control = "../control/guard.go", "../control/requests.go", "../control/loop.go"
	edit := func(name, file string, pairs ...string) mutant.Mutant { return mutant.Edit(t, name, file, pairs...) }
	mutant.Sample(t, []mutant.Mutant{
		// The loop.
		edit("the latch is not looked at before a frame", loop,
			"		look = l.guard.Look()\n	}\n	switch {\n	case look == guard.Tripped:", "	}\n	switch {\n	case look == guard.Tripped:"),
		edit("the look comes before the window opens", loop,
			"		l.guard.Open()\n", "		look = l.guard.Look()\n		l.guard.Open()\n",
			"		look = l.guard.Look()\n	}\n	switch {\n	case look == guard.Tripped:", "	}\n	switch {\n	case look == guard.Tripped:"),
		edit("the window does not open", "watch.go", "	w.agent.window.Store(1)\n", ""),
		edit("the window stays open behind the frame", control, "	l.shut()\n	if err != nil {", "	if err != nil {"),
		edit("the window stays open when no frame leaves", loop, "	l.shut()\n	return false\n", "	return false\n"),
		edit("any latch is this epoch's", "watch.go", "w.guard.latched.Load() == w.epoch:", "w.guard.latched.Load() != 0:"),
		edit("a person's damp begins no epoch", requests, "	g.begin()\n", ""),
		edit("a person's damp clears what they were not shown", requests, "trips != shown:", "false:"),
		edit("another agent's robot is sent to", "watch.go", "case session != w.session:", "case false:"),
		edit("nobody's robot is another's", "watch.go", "		return Nobody\n", "		return Foreign\n"),
		edit("nobody's robot is driven", "watch.go", "	case session == 0:\n		return Nobody\n	case session != w.session:", "	case session != 0 && session != w.session:"),
		edit("a loop that nobody guards goes on", loop, "look == guard.Nobody && l.mode != Idle:", "false:"),
		edit("a torque frame that nobody guards leaves", loop, "	case look != guard.Free:\n", "	case false:\n"),
		edit("a guard of nobody's counts as alive", loop, "return look == guard.Free || look == guard.Tripped", "return look != guard.Foreign"),
		edit("lateness counts by the judge's limit alone", loop, "		limit = min(limit, l.guard.StaleNs())\n", ""),
		edit("behind a long hold the loop does not know what the guard heard", control, "		from = max(from, l.guard.UntilNs())\n", ""),
		edit("a lost guard is not seen", loop, "l.guardStill >= guardLostTicks", "false"),
		edit("the end leaves the guard armed", loop, "	if l.guard != nil {\n		l.guard.End()\n", "	if false {\n		l.guard.End()\n"),
		edit("a loop that panics beats no more", control, "		l.beat(now)\n		answered := false\n", "		answered := false\n"),
		edit("an end that the robot has not confirmed disarms", control, "			if l.endErr == nil { // else", "			if true { // else"),
		edit("a panic disarms", control, "			if l.lastDamping() {", "			if l.lastDamping(); true {"),
		// The guard.
		edit("the window is looked at before the latch", "guard.go",
			"	g.page.latched.Store(epoch) // first; then the look at the window\n", "",
			"(min(now+windowStepNs, until))\n	}\n", "(min(now+windowStepNs, until))\n	}\n	g.page.latched.Store(epoch)\n"),
		edit("the window is not looked at", "guard.go", "s.inside && (s.gone.Load() || s.page.window.Load() == 0) {", "s.inside {"),
		edit("the latch is in force before the frame is away", "guard.go", "s.inside = epoch, true\n	g.page.latchedNs.Store(0)\n", "s.inside = epoch, true\n	g.page.latchedNs.Store(g.clock.Now())\n"),
		edit("a latch whose agent goes on is never in force", "guard.go", "	g.outside(s)\n	epoch :=", "	epoch :="),
		edit("a kill that failed counts as one", "guard.go", "err != nil && err != unix.ESRCH {", "err == unix.ENOSYS {"),
		edit("who is preempted in the window is killed", "guard.go", "thread > 0 && urgent(int(thread)) {", "thread > 0 || urgent(0) {"),
		edit("who runs first is waited for as if preempted", "guard.go", "thread > 0 && urgent(int(thread)) {", "thread < 0 {"),
		edit("a number of another PID namespace's is believed", "serve.go", "err != nil {\n		named = 0\n", "false && err != nil {\n		named = 0\n"),
		edit("the loop's thread is not known", "watch.go", "int64(unix.Gettid())", "int64(0*unix.Gettid())"),
		edit("who stands still in the window lives on", "guard.go", "			g.kill(s)\n", ""),
		edit("damping does not wait for the killed", "guard.go", "			s.killed = killedCycles\n", ""),
		edit("it latches once in its life", "guard.go", "if s.latched != epoch && s.page.torque", "if s.latched == 0 && s.page.torque"),
		edit("it latches a millisecond early", "guard.go", "nowNs-s.page.beatNs.Load() > s.staleNs", "nowNs-s.page.beatNs.Load() >= s.staleNs"),
		edit("it damps beside a loop that ticks again", "guard.go", "	if !stale {\n", "	if !stale && s.latched != epoch {\n"),
		edit("it latches where there is no torque", "guard.go", "s.latched != epoch && s.page.torque.Load() != 0", "s.latched != epoch"),
		edit("it damps a robot that is disarmed", "guard.go", "	if epoch>>32 != s.number {\n", "	if false {\n"),
		edit("it damps a silent robot", "guard.go", "if s.ended(s.page.beatNs.Load()) || silent && now > s.knockNs.Load() {", "if s.ended(s.page.beatNs.Load()) {"),
		edit("it damps a robot in sport mode", "guard.go", "if s.ended(s.page.beatNs.Load()) || silent", "if silent"),
		edit("sport mode found once is for ever", "guard.go", "s.over.Load() == beatNs }", "s.over.Load() != 0 }"),
		edit("a late look for sport mode counts", "serve.go", "s.over.Store(beat)", "s.over.Store(s.page.beatNs.Load())"),
		edit("a robot that was silent before is damped for two seconds", "guard.go", "		s.untilNs = s.page.untilNs.Load()\n", "		s.untilNs = now + silenceNs\n"),
		edit("a next agent is shown the latch before", "guard.go", "			g.page.latchedNs.Store(0)\n			g.page.dampedNs.Store(0)\n", ""),
		edit("the latch of one that has ended is never in force", "guard.go", "		g.outside(before) // its last latch, too, is in force: it has ended\n", ""),
		edit("an agent that is gone must grow stale", "guard.go", "stale := s.gone.Load() || nowNs", "stale := nowNs"),
		edit("a robot that is silent is given up for gone", "serve.go", "s.reg.Robot.Addr().IsLoopback() && !held(s.reg.Robot.Port())", "true"),
		edit("an agent that lives is taken over", "serve.go", "		if !s.gone.Load() {\n			return nil, nil, fds,", "		if false {\n			return nil, nil, fds,"),
	}, 3)
}
