package link

// Arrival is arrival.
var Arrival = arrival

// SendErrorOf is sendError.
var SendErrorOf = sendError

// ReadClocks is readClocks.
var ReadClocks = readClocks

// SetClocks puts other clocks under u.
func SetClocks(u *UDP, clocks func() (monoNs, wallNs int64)) { u.clocks = clocks }
