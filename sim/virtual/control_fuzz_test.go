package virtual

import (
	"reflect"
	"strings"
	"testing"
)

func FuzzRequest(f *testing.F) {
	for _, s := range []string{`{"fault":"drop_state@now+1"}`, `{"kind":"battery","params":{"soc":7},"at":1}`, `{"kind":"push","params":{"n":"60"},"from":"stand","for":1e-1,"every":5}`,
		`{"kind":"power","samples":3}`, `{"kind":"power","for":0}`, `{"fault":"kick@1","at":null}`, `[]`, `null`, `{"kind":"kick","kind":"kick"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fault, err := readFault(strings.NewReader(body))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "virtual: ") {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if err := fault.Validate(); err != nil {
			t.Fatalf("%q was taken, but is not valid: %v", body, err)
		}
		if fault.From == "start" {
			fault.From = "" // the same
		}
		again, err := ParseFault(fault.String())
		if err != nil || !reflect.DeepEqual(again, fault) {
			t.Fatalf("%q -> %q -> %+v, %v", body, fault, again, err)
		}
	})
}
