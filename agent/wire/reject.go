package wire

import (
	"errors"
	"strconv"
)

// Reject is why a frame was refused, by a decoder (empty to CRC) or by an encoder (range, non-finite). The values are
// dense from 0 to NumRejects-1, so a counter per reason is an array.
type Reject uint8

const (
	// RejectEmpty: a datagram of no bytes.
	RejectEmpty Reject = iota
	// RejectShort: fewer bytes than the message has.
	RejectShort
	// RejectLong: more bytes than the message has. The maker's receiver cuts such a frame and takes it.
	RejectLong
	// RejectHead: does not begin with FE EF.
	RejectHead
	// RejectLevel: the CRC holds, but in the other form than the level flag asks for. The maker's receiver calls this
	// a CRC error; told apart, it says that the sender speaks the protocol and disagrees about the form.
	RejectLevel
	// RejectCRC: the CRC holds in neither form.
	RejectCRC
	// RejectRange: an encoder was given a value its field cannot carry.
	RejectRange
	// RejectNonFinite: an encoder was given a NaN or an infinity where none may leave.
	RejectNonFinite

	// NumRejects is the number of reasons.
	NumRejects = iota
)

var rejectNames = [NumRejects]string{"empty", "short", "long", "head", "level", "crc", "range", "non_finite"}

// String is the reason as a metric label: empty, short, long, head, level, crc, range, non_finite.
func (r Reject) String() string {
	if int(r) < len(rejectNames) {
		return rejectNames[r]
	}
	return "unknown"
}

// Message is one of the four messages.
type Message uint8

const (
	// MessageLowCmd goes to the robot's motors.
	MessageLowCmd Message = iota
	// MessageLowState comes from a robot at low level.
	MessageLowState
	// MessageHighCmd goes to the robot's sport mode.
	MessageHighCmd
	// MessageHighState comes from the robot's sport mode.
	MessageHighState

	numMessages = iota
)

var messages = [numMessages]struct {
	name string
	size int // bytes
}{{"LowCmd", LowCmdSize}, {"LowState", LowStateSize}, {"HighCmd", HighCmdSize}, {"HighState", HighStateSize}}

// String names the message.
func (m Message) String() string {
	if int(m) < len(messages) {
		return messages[m].name
	}
	return "unknown"
}

// Field is a field an encoder can refuse.
type Field uint8

const (
	// FieldNone: the refusal is about the frame, not about a field.
	FieldNone Field = iota
	// FieldQ to FieldKd belong to a LowCmd's motors.
	FieldQ
	FieldDq
	FieldTau
	FieldKp
	FieldKd
	// FieldTauEst belongs to a LowState's motors.
	FieldTauEst
	// FieldCellVoltage belongs to a LowState's battery.
	FieldCellVoltage
	// FieldFootRaiseHeight to FieldYawSpeed belong to a HighCmd.
	FieldFootRaiseHeight
	FieldBodyHeight
	FieldPosition
	FieldEuler
	FieldVelocity
	FieldYawSpeed
	// FieldCRCForm is the form asked of any encoder.
	FieldCRCForm

	numFields = iota
)

// fields gives each field its name, in two parts where an index stands between them, and what it can carry.
var fields = [numFields]struct {
	name    string
	indexed bool
	after   string
	want    string
}{
	FieldQ:               {"motor ", true, " q", "finite"},
	FieldDq:              {"motor ", true, " dq", "finite"},
	FieldTau:             {"motor ", true, " tau", "within -128 < tau < 128 N.m"},
	FieldKp:              {"motor ", true, " Kp", "within 0 <= Kp < 1024"},
	FieldKd:              {"motor ", true, " Kd", "within 0 <= Kd < 2048"},
	FieldTauEst:          {"motor ", true, " tauEst", "within -128 <= tauEst < 128 N.m"},
	FieldCellVoltage:     {"cell ", true, " voltage", "at most 8191 mV"},
	FieldFootRaiseHeight: {"foot raise height", false, "", "finite"},
	FieldBodyHeight:      {"body height", false, "", "finite"},
	FieldPosition:        {"position ", true, "", "finite"},
	FieldEuler:           {"euler ", true, "", "finite"},
	FieldVelocity:        {"velocity ", true, "", "finite"},
	FieldYawSpeed:        {"yaw speed", false, "", "finite"},
	FieldCRCForm:         {"CRC form", false, "", "plain or encrypted"},
}

// RejectError is the error of every encoder and decoder here. All values exist from the start of the program and are
// handed out by pointer, so that refusing allocates nothing: read them, do not write them.
type RejectError struct {
	Message Message
	Reason  Reject
	Field   Field  // FieldNone unless an encoder refused a value
	Index   uint8  // motor, cell or axis of Field, from 0
	Length  uint16 // bytes that came, for empty, short and long; maxLength+1 stands for any more
}

// maxLength is the longest frame whose length an error still tells: what a datagram holds on Ethernet.
const maxLength = 1500

// Error is a sentence naming message and cause, such as "wire: LowState: 806 bytes, want 807".
func (e *RejectError) Error() string {
	s := "wire: " + e.Message.String() + ": "
	switch e.Reason {
	case RejectEmpty, RejectShort, RejectLong:
		got := strconv.Itoa(int(e.Length))
		if e.Length > maxLength {
			got = "more than " + strconv.Itoa(maxLength)
		}
		return s + got + " bytes, want " + strconv.Itoa(messages[e.Message].size)
	case RejectHead:
		return s + "does not begin with FE EF"
	case RejectLevel:
		return s + "CRC is not in the form the level flag asks for"
	case RejectCRC:
		return s + "CRC is wrong"
	}
	f := fields[e.Field]
	s += f.name
	if f.indexed {
		s += strconv.Itoa(int(e.Index)) + f.after
	}
	if e.Reason == RejectNonFinite {
		return s + " is not finite"
	}
	return s + " is not " + f.want
}

// ReasonOf returns the reason of an error from this package, also when it is wrapped; false for any other error and for nil.
func ReasonOf(err error) (Reject, bool) {
	if e, ok := errors.AsType[*RejectError](err); ok {
		return e.Reason, true
	}
	return 0, false
}

// refusals holds every RejectError there is (about 110 kB).
var refusals = makeRefusals()

type refusalTable struct {
	length [numMessages][maxLength + 2]RejectError
	frame  [numMessages][NumRejects]RejectError
	field  [numMessages][numFields][Motors][2]RejectError // last: range, non-finite
}

func makeRefusals() *refusalTable {
	t := new(refusalTable)
	for m := range Message(numMessages) {
		for n := range t.length[m] {
			e := RejectError{Message: m, Reason: RejectLong, Length: uint16(n)}
			switch {
			case n == 0:
				e.Reason = RejectEmpty
			case n < messages[m].size:
				e.Reason = RejectShort
			}
			t.length[m][n] = e
		}
		for r := range Reject(NumRejects) {
			t.frame[m][r] = RejectError{Message: m, Reason: r}
		}
		for f := range Field(numFields) {
			for i := range uint8(Motors) {
				t.field[m][f][i] = [2]RejectError{
					{Message: m, Reason: RejectRange, Field: f, Index: i},
					{Message: m, Reason: RejectNonFinite, Field: f, Index: i},
				}
			}
		}
	}
	return t
}

// lengthError is the refusal of n bytes, n not being the size of m.
func lengthError(m Message, n int) error { return &refusals.length[m][min(n, maxLength+1)] }

// frameError is the refusal of a frame for its head, level or CRC.
func frameError(m Message, r Reject) error { return &refusals.frame[m][r] }

// rangeError is the refusal of a value its field cannot carry.
func rangeError(m Message, f Field, index int) error { return &refusals.field[m][f][index][0] }

// nonFiniteError is the refusal of a NaN or an infinity.
func nonFiniteError(m Message, f Field, index int) error { return &refusals.field[m][f][index][1] }
