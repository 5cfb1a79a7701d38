// Package httpapi is the agent's HTTP server: people and programs read the
// robot's state, steer it and stop it. It holds no control logic; whatever
// changes something is decided by the Agent, which control.Loop implements.
//
//	client ──▶ gate ──▶ guard ──▶ route ──▶ decode ──▶ Agent ──▶ reply
//	           64 conn.  Host,     table     strict     refuses   JSON
//	           oldest    Origin              JSON       or acts
//	           slow one
//	           goes
//
// Until access control exists only loopback is served: CheckAddr refuses other
// addresses before a listener is made, and Serve refuses other listeners.
//
// Bad input never becomes motion: a body is decoded into a fresh value, every
// member is required, and nothing is handed to the Agent unless all of it is
// understood. A command carries its own end, on the robot's clock, so it cannot
// outlive its sender.
//
// The control loop is never delayed: handlers read published snapshots and hand
// over values through what the Agent offers. clawagent run is the caller. The
// routes are described in openapi.yaml, which a test compares with the table in
// server.go.
package httpapi
