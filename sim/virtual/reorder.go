package virtual

import (
	"net/netip"
	"slices"
)

// reorder and reorder_command let frames come in pairs, the newer first: the first of a pair is held until the second of the same receiver
// (sender) is there. What is held when the fault ends goes on its way then.

// heldStates are the copies of a state that wait for the next one to the same receiver.
type heldStates struct {
	to     netip.AddrPort
	frames [][]byte
}

// heldOrders are the copies of a command that wait for the next one of the same sender.
type heldOrders struct {
	from   netip.AddrPort
	orders []order
}

// reorderState says which of the frames of a new state, and of those held, go to a receiver now.
func (r *Robot) reorderState(to netip.AddrPort, frames [][]byte) [][]byte {
	for _, e := range r.effects {
		if !e.on || e.k.name != "reorder" {
			continue
		}
		if len(frames) > 0 { // else it was lost before it came here
			if i := slices.IndexFunc(e.states, func(h heldStates) bool { return h.to == to }); i >= 0 {
				frames = append(frames, e.states[i].frames...)
				e.states = slices.Delete(e.states, i, i+1)
			} else {
				held := heldStates{to: to}
				for _, b := range frames {
					held.frames = append(held.frames, slices.Clone(b))
				}
				e.states, frames = append(e.states, held), nil
			}
		}
		r.used(e)
	}
	return frames
}

// reorder says which of the commands that have arrived, of one sender, and of those held are executed now, in this order.
func (r *Robot) reorder(arriving []order) []order {
	for _, e := range r.effects {
		if !e.on || e.k.name != "reorder_command" {
			continue
		}
		if len(arriving) > 0 {
			from := arriving[0].from
			if i := slices.IndexFunc(e.orders, func(h heldOrders) bool { return h.from == from }); i >= 0 {
				arriving = append(arriving, e.orders[i].orders...)
				e.orders = slices.Delete(e.orders, i, i+1)
			} else {
				e.orders, arriving = append(e.orders, heldOrders{from, arriving}), nil
			}
		}
		r.used(e)
	}
	return append(r.overtaken(), arriving...)
}

// release lets go what a fault that ends has held: states with the next that is sent, commands with the next step or command.
func (r *Robot) release(e *effect) {
	now := r.nowNs()
	for _, h := range e.states {
		for _, b := range h.frames {
			r.post(packet{now, h.to, b}, true)
		}
	}
	for _, h := range e.orders {
		r.overdue = append(r.overdue, h.orders...)
	}
	e.states, e.orders = nil, nil
}

// overtaken takes the commands whose fault has ended; a robot whose computer does not run does not hear them.
func (r *Robot) overtaken() (all []order) {
	if all, r.overdue = r.overdue, nil; r.dark() {
		return nil
	}
	return all
}
