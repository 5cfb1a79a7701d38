package run

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io/fs"
	"math"
	"os"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Panel is one diagram of curves.svg.
type Panel struct {
	Title string
	Unit  string // beside the vertical axis: "m/s"
	Tags  []string
	Log   bool // logarithmic vertical axis; values that are not positive are left out
}

// Diagram is a panel of a picture of any curves.
type Diagram struct {
	Title  string
	X, Y   string // beside the axes: "minutes", "m/s"
	Log    bool   // logarithmic vertical axis; values that are not positive are left out
	Curves []Curve
}

// Curve is one line of a Diagram. Those of one name have one colour and one entry in the legend.
type Curve struct {
	Name   string
	Points []Point
}

// Point is a dot of a Curve.
type Point = plotter.XY

// The picture's measures, and how many dots a curve has at most: a run of a million iterations is as large a file as one of a thousand.
const (
	panelWidth  = 150 * vg.Millimeter
	panelHeight = 75 * vg.Millimeter
	columns     = 2
	gap         = 5 * vg.Millimeter
	maxDots     = 400
)

// Okabe and Ito's colours, which people tell apart who see fewer; a ninth curve begins again, dashed.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0xb8, 0xae, 0x1a, 0xff},
}

var dashes = [][]vg.Length{nil, {4, 2}, {1, 2}, {6, 2, 1, 2}}

// WriteCurves draws what was logged so far as curves.svg, a panel beside the other. x is the tag of the horizontal axis, "" for the
// iteration; iterations without it are left out. Curves that have no value are left out, and panels that have no curve; without any there is
// no picture.
func (f *Folder) WriteCurves(x string, panels []Panel) error {
	data, err := os.ReadFile(f.Path(metricsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	picture, err := drawCurves(data, x, panels)
	if err == nil && picture != nil {
		err = writeAtomic(f.Path(curvesFile), picture)
	}
	if err != nil {
		return fmt.Errorf("run: %s: %w", f.Path(curvesFile), err)
	}
	return nil
}

// WriteDiagrams draws diagrams as an SVG file, a panel beside the other, two in a row. Curves without a point are left out, and diagrams
// without a curve; without any there is no picture, which is an error.
func WriteDiagrams(path string, diagrams []Diagram) error {
	picture, err := drawDiagrams(diagrams)
	if err == nil && picture == nil {
		err = errors.New("no curve has a point")
	}
	if err == nil {
		err = writeAtomic(path, picture)
	}
	if err != nil {
		return fmt.Errorf("run: %s: %w", path, err)
	}
	return nil
}

// drawCurves draws metrics.jsonl; nil is no picture. Lines that a killed process wrote in part are left out.
func drawCurves(metrics []byte, x string, panels []Panel) ([]byte, error) {
	if x == "" {
		x = iterationKey
	}
	curves := map[string][]Point{}
	for _, p := range panels {
		for _, tag := range p.Tags {
			curves[tag] = nil
		}
	}
	for line := range bytes.Lines(metrics) {
		_, values, err := readLine(line)
		if err != nil {
			continue
		}
		at, ok := values[x]
		if !ok {
			continue
		}
		for tag := range curves {
			if y, ok := values[tag]; ok {
				curves[tag] = append(curves[tag], Point{X: at, Y: y})
			}
		}
	}
	diagrams := make([]Diagram, len(panels))
	for i, p := range panels {
		diagrams[i] = Diagram{Title: p.Title, X: x, Y: p.Unit, Log: p.Log}
		for _, tag := range p.Tags {
			diagrams[i].Curves = append(diagrams[i].Curves, Curve{tag, curves[tag]})
		}
	}
	return drawDiagrams(diagrams)
}

// drawDiagrams is an SVG file's content; nil is no picture.
func drawDiagrams(diagrams []Diagram) ([]byte, error) {
	var shown []*panelPlot
	for i := range diagrams {
		plotted, err := newPanelPlot(&diagrams[i])
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", diagrams[i].Title, err)
		}
		if plotted != nil {
			shown = append(shown, plotted)
		}
	}
	if len(shown) == 0 {
		return nil, nil
	}
	across := min(columns, len(shown))
	rows := (len(shown) + across - 1) / across
	canvas := vgsvg.New(vg.Length(across)*panelWidth, vg.Length(rows)*panelHeight)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	tiles := draw.Tiles{Cols: across, Rows: rows}
	legend := vg.Length(0)
	for _, p := range shown {
		legend = max(legend, p.legend.Rectangle(whole).Size().X)
	}
	for i, p := range shown {
		p.draw(draw.Crop(tiles.At(whole, i%across, i/across), gap/2, -gap/2, gap/2, -gap/2), legend)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// Who has not the font that the text was measured with shall have a like one.
	return bytes.ReplaceAll(out.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// panelPlot is a diagram with its legend at the right, where it hides no curve.
type panelPlot struct {
	plot   *plot.Plot
	legend plot.Legend
}

// newPanelPlot is nil for a panel without a curve.
func newPanelPlot(p *Diagram) (*panelPlot, error) {
	d := &panelPlot{plot.New(), plot.NewLegend()}
	d.plot.Title.Text, d.plot.X.Label.Text, d.plot.Y.Label.Text = p.Title, p.X, p.Y
	d.plot.Title.TextStyle.Font.Size = 12
	d.plot.Title.Padding = 6
	for _, axis := range []*plot.Axis{&d.plot.X, &d.plot.Y} {
		axis.Label.TextStyle.Font.Size, axis.Tick.Label.Font.Size = 10, 9
		axis.Label.TextStyle.Font.Variant, axis.Tick.Label.Font.Variant = "Sans", "Sans"
		axis.Tick.Marker = plot.TickerFunc(ticks)
	}
	d.plot.Title.TextStyle.Font.Variant, d.legend.TextStyle.Font.Variant = "Sans", "Sans"
	d.legend.TextStyle.Font.Size = 9
	d.legend.Top, d.legend.Left, d.legend.YPosition = true, true, 0.1
	d.legend.Padding = 3
	d.legend.ThumbnailWidth = 5 * vg.Millimeter
	if p.Log {
		d.plot.Y.Scale, d.plot.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xee}
	d.plot.Add(grid)
	number, named := map[string]int{}, map[string]bool{} // of each name; those in the legend
	for _, c := range p.Curves {
		if _, ok := number[c.Name]; !ok {
			number[c.Name] = len(number)
		}
		dots, band := thin(usable(c.Points, p.Log))
		if len(dots) == 0 {
			continue
		}
		i := number[c.Name]
		ink := palette[i%len(palette)]
		if band != nil {
			area, err := plotter.NewPolygon(band)
			if err != nil {
				return nil, err
			}
			pale := ink
			pale.A = 0x50
			area.Color, area.LineStyle = pale, draw.LineStyle{Color: pale, Width: 0.3} // a spike is thinner than a line
			d.plot.Add(area)
		}
		line, err := plotter.NewLine(dots)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.Dashes = ink, 1.2, dashes[i/len(palette)%len(dashes)]
		d.plot.Add(line)
		if len(dots) <= 30 { // evaluations, now and then
			marks, err := plotter.NewScatter(dots)
			if err != nil {
				return nil, err
			}
			marks.GlyphStyle = draw.GlyphStyle{Color: ink, Radius: 1.5, Shape: draw.CircleGlyph{}}
			d.plot.Add(marks)
		}
		if !named[c.Name] {
			d.legend.Add(c.Name, line)
			named[c.Name] = true
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	widen(&d.plot.X)
	if p.Log {
		wholeDecades(&d.plot.Y)
	} else {
		widen(&d.plot.Y)
	}
	return d, nil
}

// usable is without the values that an axis cannot show: those so large that a difference is infinite, and of a logarithmic axis those that
// are not above 0 by much.
func usable(all plotter.XYs, positive bool) plotter.XYs {
	const largest = 1e290
	kept := make(plotter.XYs, 0, len(all))
	for _, p := range all {
		if math.Abs(p.X) < largest && math.Abs(p.Y) < largest && (!positive || p.Y > 1/largest) {
			kept = append(kept, p)
		}
	}
	return kept
}

// thin makes at most maxDots of all, each the mean of its neighbours, and where it took any together the outline of their least and greatest
// values: a spike in one iteration still shows.
func thin(all plotter.XYs) (dots, band plotter.XYs) {
	if len(all) <= maxDots {
		return all, nil
	}
	var low plotter.XYs
	for i := range maxDots {
		group := all[i*len(all)/maxDots : (i+1)*len(all)/maxDots]
		least, most, sum := group[0].Y, group[0].Y, plotter.XY{}
		for _, p := range group {
			least, most = min(least, p.Y), max(most, p.Y)
			sum.X += p.X
			sum.Y += p.Y
		}
		mean := plotter.XY{X: sum.X / float64(len(group)), Y: sum.Y / float64(len(group))}
		dots = append(dots, mean)
		band = append(band, plotter.XY{X: mean.X, Y: most})
		low = append(low, plotter.XY{X: mean.X, Y: least})
	}
	for i := range low {
		band = append(band, low[len(low)-1-i])
	}
	return dots, band
}

// ticks are about five round numbers, the large ones in thousands (k) and millions (M).
func ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	if !(step > 0) || math.IsInf(step, 0) {
		return []plot.Tick{{Value: low, Label: strconv.FormatFloat(low, 'g', 4, 64)}}
	}
	for _, round := range []float64{1, 2, 5, 10} {
		if (high-low)/(round*step) <= 6 {
			step *= round
			break
		}
	}
	scale, unit := 1.0, ""
	switch largest := max(math.Abs(low), math.Abs(high)); {
	case largest >= 1e9:
	case largest >= 2e6:
		scale, unit = 1e6, " M"
	case largest >= 2e3:
		scale, unit = 1e3, " k"
	}
	var marks []plot.Tick
	for n := math.Ceil(low / step); n <= math.Floor(high/step) && len(marks) < 10; n++ {
		label := "0"
		if n != 0 {
			label = strconv.FormatFloat(n*step/scale, 'g', 6, 64) + unit
		}
		marks = append(marks, plot.Tick{Value: n * step, Label: label})
	}
	return marks
}

// widen lets an axis begin at 0 where that costs less than half of its length, and gives one of equal values a length.
func widen(axis *plot.Axis) {
	switch size := max(math.Abs(axis.Min), math.Abs(axis.Max)); {
	case size < 1e-290:
		axis.Min, axis.Max = -1, 1
	case axis.Max-axis.Min < 1e-9*size:
		axis.Min, axis.Max = axis.Min-size/10, axis.Max+size/10
	case axis.Min > 0 && axis.Min < axis.Max/2:
		axis.Min = 0
	}
}

// wholeDecades widens a logarithmic axis that would have less than two powers of ten to name.
func wholeDecades(axis *plot.Axis) {
	low, high := math.Log10(axis.Min), math.Log10(axis.Max)
	if math.Floor(high)-math.Ceil(low) < 1 {
		axis.Min, axis.Max = math.Pow(10, math.Floor(low)), math.Pow(10, math.Floor(high)+1)
	}
}

// draw fills c but for legend, the width of the widest of all panels, so that axes stand below each other.
func (d *panelPlot) draw(c draw.Canvas, legend vg.Length) {
	d.plot.Draw(draw.Crop(c, 0, -legend-gap, 0, 0))
	d.legend.Draw(draw.Crop(c, c.Size().X-legend, 0, 0, -8*vg.Millimeter))
}
