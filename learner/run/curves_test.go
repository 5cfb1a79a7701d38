package run

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/plotter"
)

// somePanels are those of a training run.
var somePanels = []Panel{
	{Title: "reward", Tags: []string{"Train/mean_reward"}},
	{Title: "reward terms", Unit: "per step", Tags: []string{"Episode/lin_vel", "Episode/ang_vel", "Episode/rate",
		"Episode/a", "Episode/b", "Episode/c", "Episode/d", "Episode/e", "Episode/f", "Episode/g"}},
	{Title: "tracking error in the evaluation world", Unit: "m/s, rad/s", Tags: []string{"Eval/vel_err", "Eval/yaw_err"}},
	{Title: "falls", Unit: "share of rows", Tags: []string{"Eval/fall_rate"}},
	{Title: "losses", Log: true, Tags: []string{"Loss/value", "Policy/kl", "Loss/surrogate"}},
	{Title: "speed", Unit: "steps/s", Tags: []string{"Perf/total_fps", "Perf/collection_time"}},
	{Title: "never logged", Tags: []string{"Rnd/weight"}},
}

// trainingRun logs what a run of that many iterations looks like.
func trainingRun(t *testing.T, f *Folder, iterations int64) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := int64(1); i <= iterations; i++ {
		left, noise := math.Exp(-5*float64(i)/float64(iterations)), random.NormFloat64()
		values := []Value{
			{"Train/steps", float64(i) * 1536}, {"Train/mean_reward", 20*(1-left) + noise},
			{"Episode/lin_vel", 1 - left + 0.05*noise}, {"Episode/ang_vel", 0.5 - left/2 + 0.05*noise}, {"Episode/rate", -0.1 - 0.2*left},
			{"Loss/value", left + 0.1*math.Abs(noise)}, {"Policy/kl", 0.01 * math.Exp(noise/3)}, {"Loss/surrogate", -0.01},
			{"Perf/total_fps", 18000 + 900*noise}, {"Perf/collection_time", 0.04},
		}
		for k := range 7 {
			values = append(values, Value{"Episode/" + string(rune('a'+k)), float64(k)*left/10 + 0.02*random.NormFloat64()})
		}
		if i == iterations/2 {
			values[1].Value, values[5].Value = -60, math.NaN()
		}
		if i%(iterations/15) == 0 {
			values = append(values, Value{"Eval/vel_err", 0.09 + 0.5*left}, Value{"Eval/yaw_err", 0.1 + 0.4*left}, Value{"Eval/fall_rate", left})
		}
		if err := f.Log(i, values); err != nil {
			t.Fatal(err)
		}
	}
}

// svgTexts is the text elements of a well-formed SVG.
func svgTexts(t *testing.T, picture []byte) (texts []string) {
	t.Helper()
	inText := false
	for dec := xml.NewDecoder(bytes.NewReader(picture)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts = append(texts, string(token))
			}
		case xml.EndElement:
			inText = false
		}
	}
}

// TestCurves draws a run; RUN_TEST_CURVES=FILE keeps the picture to look at.
func TestCurves(t *testing.T) {
	f := mustCreate(t)
	if err := f.WriteCurves("", somePanels); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.Path("curves.svg")); err == nil {
		t.Error("a picture of nothing")
	}
	trainingRun(t, f, 1500)
	appendTo(t, f.Path(metricsFile), `{"iteration":15`)
	if err := f.WriteCurves("Train/steps", somePanels); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile(f.Path("curves.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if keep := os.Getenv("RUN_TEST_CURVES"); keep != "" {
		if err := os.WriteFile(keep, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	texts := svgTexts(t, picture)
	for _, p := range somePanels[:6] {
		for _, want := range append([]string{p.Title}, p.Tags...) {
			if shown := slices.Contains(texts, want); shown != (want != "Loss/surrogate") { // not above 0
				t.Errorf("%q shown: %v", want, shown)
			}
		}
	}
	for want, times := range map[string]int{"never logged": 0, "Train/steps": 6, "2 M": 6, "steps/s": 1, "-60": 1, "0.01": 1, "NaN": 0} {
		n := 0
		for _, text := range texts {
			if text == want {
				n++
			}
		}
		if n != times {
			t.Errorf("%q is shown %d times, want %d", want, n, times)
		}
	}
	if len(picture) > 500_000 {
		t.Errorf("the picture has %d bytes", len(picture))
	}
}

// TestCurvesOfStrangeValues: whatever is logged, there is a picture of it.
func TestCurvesOfStrangeValues(t *testing.T) {
	for _, values := range [][]float64{
		{1}, {0}, {-3}, {5, 5, 5}, {0, 0}, {1e-300, 2e-300}, {1e308, -1e308}, {-1e299, 1e299}, {math.MaxFloat64}, {5e-324, 1}, {1e15, 1e15 + 1}, {1e-9, 1e9},
		{math.NaN(), 1, math.Inf(1)}, {2, 3}, {0.1, 0.1 + 1e-17}, {1e12, 3e12},
	} {
		var metrics []byte
		for i, v := range values {
			var err error
			if metrics, err = appendLine(metrics, int64(i), []Value{{"<&>", v}}, time.UnixMilli(0)); err != nil {
				t.Fatal(err)
			}
		}
		for _, x := range []string{"", "time", "<&>", "none"} {
			for _, log := range []bool{false, true} {
				t.Run(fmt.Sprint(values, x, log), func(t *testing.T) {
					picture, err := drawCurves(metrics, x, []Panel{{Title: `"a" & b`, Tags: []string{"<&>"}, Log: log}})
					if err != nil {
						t.Fatal(err)
					}
					if text := string(picture); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
						t.Error("a coordinate is not a number")
					}
					if texts := svgTexts(t, picture); picture != nil && (!slices.Contains(texts, `"a" & b`) || !slices.Contains(texts, "<&>")) {
						t.Errorf("texts %q", texts)
					}
				})
			}
		}
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		low, high float64
		want      string
	}{
		{0, 1, "0 0.2 0.4 0.6 0.8 1"},
		{-0.3, 1.1, "0 0.5 1"},
		{-60, 20, "-60 -40 -20 0 20"},
		{0, 2.3e6, "0 0.5 M 1 M 1.5 M 2 M"},
		{-3000, 3000, "-3 k -2 k -1 k 0 1 k 2 k 3 k"},
		{0.07, 0.43, "0.1 0.2 0.3 0.4"},
		{1e9, 3e9, "1e+09 1.5e+09 2e+09 2.5e+09 3e+09"},
		{3, 3, "3"},
	} {
		var got []string
		for _, mark := range ticks(test.low, test.high) {
			got = append(got, mark.Label)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%g to %g: %q, want %q", test.low, test.high, strings.Join(got, " "), test.want)
		}
	}
}

func TestThin(t *testing.T) {
	var all plotter.XYs
	for i := range 10*maxDots + 3 {
		all = append(all, plotter.XY{X: float64(i), Y: 1})
	}
	if dots, band := thin(all[:maxDots]); band != nil || len(dots) != maxDots {
		t.Errorf("few: %d dots, band %v", len(dots), band)
	}
	all[1234].Y = -1e6
	dots, band := thin(all)
	if len(dots) != maxDots || len(band) != 2*maxDots {
		t.Fatalf("%d dots, %d of the band", len(dots), len(band))
	}
	least := slices.MinFunc(band, func(a, b plotter.XY) int { return int(a.Y - b.Y) })
	if least.Y != -1e6 || math.Abs(least.X-1234) > 10 {
		t.Errorf("the spike is at %v", least)
	}
	if diff := cmp.Diff(plotter.XYs{{X: 4.5, Y: 1}, {X: 14.5, Y: 1}}, dots[:2]); diff != "" {
		t.Error(diff)
	}
}
