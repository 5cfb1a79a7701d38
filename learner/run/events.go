package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A TensorBoard event file is a row of records (TFRecord), numbers little endian:
//
//	8  n        4  masked CRC-32C of those 8 bytes
//	n  Event    4  masked CRC-32C of the Event
//
// and an Event is a protobuf message (tensorflow/core/util/event.proto), of which we write
//
//	1 double wall_time (s)   2 int64 step   3 string file_version   5 Summary   7 SessionLog
//	Summary    1 Value, repeated: 1 string tag, 2 float simple_value
//	SessionLog 1 status: 1 is START, which takes back what earlier files have of this step and later ones
const fileVersion = "brain.Event:2"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is CRC-32C rotated and shifted, as TFRecord wants it: a checksum of data that holds checksums would be weak.
func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// appendRecord appends the record that holds data.
func appendRecord(b, data []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b[len(b)-8:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(data))
}

// eventWriter appends to one event file.
type eventWriter struct {
	file                 *os.File
	event, value, record []byte // reused
}

// newEvents begins the next event file of dir. TensorBoard reads them in the order of their names, so a name holds the time in seconds, and
// at least one more than the names that are there: clocks are set back, and runs die within a second. step is the first that it will hold.
func newEvents(dir string, now time.Time, step int64) (*eventWriter, error) {
	names, err := filepath.Glob(filepath.Join(literal(dir), eventsPrefix+"*"))
	if err != nil {
		return nil, err
	}
	seconds := now.Unix()
	for _, name := range names {
		first, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), eventsPrefix), ".")
		if n, err := strconv.ParseInt(first, 10, 64); err == nil {
			seconds = max(seconds, n+1)
		}
	}
	host, _ := os.Hostname()
	path := filepath.Join(dir, fmt.Sprintf("%s%010d.%s.%d.0", eventsPrefix, seconds, host, os.Getpid()))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	w := &eventWriter{file: file}
	w.begin(now, 0)
	w.event = protowire.AppendTag(w.event, 3, protowire.BytesType)
	w.event = protowire.AppendString(w.event, fileVersion)
	w.record = appendRecord(w.record[:0], w.event)
	if len(names) > 0 {
		w.begin(now, step)
		w.event = protowire.AppendTag(w.event, 7, protowire.BytesType)
		w.event = protowire.AppendBytes(w.event, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1))
		w.record = appendRecord(w.record, w.event)
	}
	if err := appendWhole(file, w.record); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// literal is a path with Glob's special characters taken literally.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// begin starts an Event in w.event.
func (w *eventWriter) begin(now time.Time, step int64) {
	w.event = protowire.AppendTag(w.event[:0], 1, protowire.Fixed64Type)
	w.event = protowire.AppendFixed64(w.event, math.Float64bits(float64(now.UnixNano())/1e9))
	if step != 0 {
		w.event = protowire.AppendTag(w.event, 2, protowire.VarintType)
		w.event = protowire.AppendVarint(w.event, uint64(step))
	}
}

// write appends one event with all values of a step.
func (w *eventWriter) write(now time.Time, step int64, values []Value) error {
	w.begin(now, step)
	w.event = protowire.AppendTag(w.event, 5, protowire.BytesType)
	size := 0
	for _, v := range values {
		size += protowire.SizeTag(1) + protowire.SizeBytes(valueSize(v.Tag))
	}
	w.event = protowire.AppendVarint(w.event, uint64(size))
	for _, v := range values {
		w.value = protowire.AppendTag(w.value[:0], 1, protowire.BytesType)
		w.value = protowire.AppendString(w.value, v.Tag)
		w.value = protowire.AppendTag(w.value, 2, protowire.Fixed32Type)
		w.value = protowire.AppendFixed32(w.value, math.Float32bits(float32(v.Value)))
		w.event = protowire.AppendTag(w.event, 1, protowire.BytesType)
		w.event = protowire.AppendBytes(w.event, w.value)
	}
	w.record = appendRecord(w.record[:0], w.event)
	return appendWhole(w.file, w.record)
}

// valueSize is the bytes of a Summary's Value.
func valueSize(tag string) int {
	return protowire.SizeTag(1) + protowire.SizeBytes(len(tag)) + protowire.SizeTag(2) + protowire.SizeFixed32()
}

// appendWhole appends data in one write, or, if the disk is full, nothing of it.
func appendWhole(f *os.File, data []byte) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Truncate(end))
	}
	return nil
}
