//go:build promtool

package e2e_test

import (
	"bytes"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/browser"
)

type (
	// dashboard contains the drawn parts of a dashboard in Grafana's format.
	dashboard struct {
		Title  string   `json:"title"`
		Panels []*panel `json:"panels"`
	}
	panel struct {
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr    string `json:"expr"`
			Legend  string `json:"legendFormat"`
			Instant bool   `json:"instant"`
		} `json:"targets"`
		FieldConfig struct {
			Defaults struct {
				Unit       string `json:"unit"`
				Thresholds struct {
					Steps []struct {
						Color string   `json:"color"`
						Value *float64 `json:"value"`
					} `json:"steps"`
				} `json:"thresholds"`
			} `json:"defaults"`
		} `json:"fieldConfig"`
		series []series
	}
	// series contains values by time, in seconds since 1970.
	series struct {
		Legend string
		labels map[string]string
		at     []float64
		values []float64
	}
)

var placeholder = regexp.MustCompile(`{{(\w+)}}`)

func seriesOf(t *testing.T, r result, legend string) series {
	t.Helper()
	s := series{labels: r.Metric}
	s.Legend = placeholder.ReplaceAllStringFunc(legend, func(label string) string {
		return r.Metric[strings.Trim(label, "{}")]
	})
	points := r.Values
	if points == nil {
		points = [][2]any{r.Value}
	}
	for _, point := range points {
		value, err := strconv.ParseFloat(point[1].(string), 64)
		require.NoError(t, err)
		if value == value { // skip NaN, the ratio of empty rates
			s.at, s.values = append(s.at, point[0].(float64)), append(s.values, value)
		}
	}
	return s
}

// last returns the newest value.
func (s series) last() float64 {
	if len(s.values) == 0 {
		return 0
	}
	return s.values[len(s.values)-1]
}

// text formats a value in the panel's unit, named as in Grafana.
func (p *panel) text(v float64) string {
	prefixed := func(base float64, prefixes ...string) string {
		i := 0
		for ; v >= base && i < len(prefixes)-1; i++ {
			v /= base
		}
		return strconv.FormatFloat(v, 'g', 3, 64) + prefixes[i]
	}
	switch p.FieldConfig.Defaults.Unit {
	case "bool_yes_no":
		if v == 0 {
			return "No"
		}
		return "Yes"
	case "bytes":
		return prefixed(1024, " B", " KiB", " MiB", " GiB")
	case "Bps":
		return prefixed(1000, " B/s", " kB/s", " MB/s", " GB/s")
	case "s":
		if v < 1 && v > 0 {
			return strconv.FormatFloat(v*1000, 'g', 3, 64) + " ms"
		}
		return time.Duration(v * 1e9).Round(time.Second).String()
	case "short":
		return prefixed(1000, "", " K", " Mil")
	}
	return prefixed(1000, "", " K") + " " + p.FieldConfig.Defaults.Unit
}

// Stat returns the value of a panel with a single value, or its name.
func (p *panel) Stat() string {
	if len(p.series) == 0 {
		return "no data"
	}
	if name := p.series[0].Legend; name != "" {
		return name
	}
	return p.text(p.series[0].last())
}

// Color returns the color of the value in the panel's thresholds.
func (p *panel) Color() (color string) {
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || len(p.series) > 0 && p.series[0].last() >= *step.Value {
			color = step.Color
		}
	}
	return color
}

// Rows returns the rows of a table.
func (p *panel) Rows() (rows [][]string) {
	for _, s := range p.series {
		var row []string
		for _, label := range slices.Sorted(maps.Keys(s.labels)) {
			if label != "__name__" {
				row = append(row, label+": "+s.labels[label])
			}
		}
		rows = append(rows, append(row, p.text(s.last())))
	}
	return rows
}

// Lines returns the names of curves, with their newest values and colors.
func (p *panel) Lines() (lines [][2]string) {
	for i, s := range p.series {
		if len(s.values) > 0 {
			lines = append(lines, [2]string{s.Legend + "  " + p.text(s.last()), hue(i)})
		}
	}
	return lines
}

func hue(i int) string { return fmt.Sprintf("hsl(%d 60%% 45%%)", 210+i*67) }

// Top returns the highest value.
func (p *panel) Top() string { return p.text(p.top()) }

func (p *panel) top() (top float64) {
	for _, s := range p.series {
		top = max(top, slices.Max(append(s.values, 0)))
	}
	return top
}

// draw draws curves. For a state-timeline it draws a bar for each time span with the state.
func (p *panel) draw(from, to time.Time) template.HTML {
	x := func(at float64) float64 { return 1000 * (at - float64(from.Unix())) / to.Sub(from).Seconds() }
	var b strings.Builder
	for i, s := range p.series {
		if p.Type == "state-timeline" {
			height := 1000 / float64(len(p.series))
			for k, value := range s.values {
				if value > 0 {
					fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`,
						x(s.at[k]), float64(i)*height, x(s.at[k]+5)-x(s.at[k])+.5, height*.8, hue(0))
				}
			}
			continue
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" vector-effect="non-scaling-stroke" points="`, hue(i))
		for k, value := range s.values {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(s.at[k]), 995-990*value/max(p.top(), 1e-9))
		}
		b.WriteString(`"/>`)
	}
	return template.HTML(b.String())
}

const page = `<!doctype html><meta charset="utf-8"><style>
body { font: 13px system-ui; margin: 12px; background: #f4f5f7; color: #222 }
main { display: grid; grid-template-columns: repeat(24, 1fr); grid-auto-rows: 24px; gap: 6px }
section { background: #fff; border: 1px solid #ddd; border-radius: 3px; padding: 4px 8px; overflow: hidden;
  display: flex; flex-direction: column; min-width: 0 }
.row { background: none; border: 0; font-weight: 600 } h2 { font-size: 13px; margin: 0 } h1 { font-size: 18px; margin: 0 0 8px }
.stat { flex: 1; display: grid; place-items: center; font-size: 24px } .green { color: #1a7f37 } .red { color: #cf222e }
.plot { display: flex; flex: 1; min-height: 0; gap: 8px } svg { flex: 1; min-width: 0; border-bottom: 1px solid #aaa; background: #fafafa }
ul { list-style: none; margin: 0; padding: 0; width: 34%; font-size: 11px; white-space: pre; overflow: hidden } small { color: #666 }
.states ul { display: flex; flex-direction: column; justify-content: space-around }
table { border-spacing: 10px 2px; font-size: 11px } .none { flex: 1; display: grid; place-items: center; color: #777 }
</style><h1>{{.D.Title}}</h1><main>{{range .D.Panels}}
<section class="{{.Type}}" style="grid-column: {{col .}} / span {{.GridPos.W}}; grid-row: {{row .}} / span {{.GridPos.H}}"><h2>{{.Title}}</h2>
{{if eq .Type "row"}}{{else if eq .Type "stat"}}<div class="stat {{.Color}}">{{.Stat}}</div>
{{else if not .Lines}}<div class="none">nothing</div>
{{else if eq .Type "table"}}<table>{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>{{end}}</table>
{{else}}<small>{{if eq .Type "timeseries"}}{{.Top}}{{end}}</small><div class="plot {{if eq .Type "state-timeline"}}states{{end}}">
<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">{{draw .}}</svg><ul>{{range .Lines}}<li style="color: {{index . 1}}">{{index . 0}}</li>{{end}}</ul></div>{{end}}
</section>{{end}}</main>`

// picture draws a dashboard with Grafana's layout, and saves a browser's screenshot of it.
func (d dashboard) picture(t *testing.T, from, to time.Time, file string) {
	t.Helper()
	drawn, err := template.New("").Funcs(template.FuncMap{
		"draw": func(p *panel) template.HTML { return p.draw(from, to) },
		"col":  func(p *panel) int { return p.GridPos.X + 1 },
		"row":  func(p *panel) int { return p.GridPos.Y + 1 },
	}).Parse(page)
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.NoError(t, drawn.Execute(w, map[string]any{"D": d}))
	}))
	defer server.Close()
	b := browser.New(t)
	b.Open(server.URL, "light", 1180)
	require.NoError(t, os.WriteFile(file, fewColors(t, b.Shot()), 0o644))
}

// fewColors returns a PNG with at most 256 colors and half the size, because documents are part of the manager.
func fewColors(t *testing.T, shot []byte) []byte {
	t.Helper()
	all, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	count := map[color.Color]int{}
	for y := all.Bounds().Min.Y; y < all.Bounds().Max.Y; y++ {
		for x := all.Bounds().Min.X; x < all.Bounds().Max.X; x++ {
			count[all.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(all.Bounds(), colors[:min(len(colors), 256)])
	draw.Draw(few, few.Bounds(), all, all.Bounds().Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&out, few))
	return out.Bytes()
}
