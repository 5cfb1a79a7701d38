package nets

import (
	"strings"
	"testing"
)

func TestCheckDevice(t *testing.T) {
	for _, name := range []string{"", "cpu", "cpu:aten", "cuda", "cuda:0", "cuda:7", "cuda:127"} {
		if err := CheckDevice(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"gpu", "CUDA", "cuda:", "cuda:-1", "cuda:+1", "cuda:01", "cuda:128", "cuda:1 ", "cuda:one", "cuda0", "cpu:0", "cpu:", "mps", " cpu"} {
		if err := CheckDevice(name); err == nil || !strings.HasPrefix(err.Error(), `device is "`+name+`", want cpu, cuda, cuda:N`) {
			t.Errorf("%q: error %v", name, err)
		}
	}
}
