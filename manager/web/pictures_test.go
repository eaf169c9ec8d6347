package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"image"
	"image/color"
	pixels "image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
)

var update = flag.Bool("update", false, "make the pictures of the documentation again")

// The folder with the pictures of the documentation, and the file with the hashes of what they show.
const picturesDir, picturesFile = "../../docs/pictures", "../../docs/pictures/structure.txt"

// largestPicture is the maximum size in bytes.
const largestPicture = 60_000

// pictured are the pages in the documentation.
var pictured = []struct{ name, path, scheme string }{
	{"list", "/", "light"},
	{"portal", "/portal", "light"},
	{"vm", "/vms/web", "dark"},
}

// The pictures in the documentation show the current pages. For each, a file contains the hash of the page's HTML and
// of the style rules that it uses. "make pictures" renews them.
func TestPicturesAreCurrent(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := showcase(t)
	style, err := staticFiles.ReadFile("static/app.css")
	require.NoError(t, err)
	var current strings.Builder
	for _, page := range pictured {
		_, text := p.call("GET", page.path, "")
		fmt.Fprintf(&current, "%s %s\n", page.name, structure(text, string(style)))
	}
	if *update {
		makePictures(t, p)
		require.NoError(t, os.WriteFile(picturesFile, []byte(current.String()), 0o644))
	}
	recorded, err := os.ReadFile(picturesFile)
	require.NoError(t, err)
	require.Equal(t, string(recorded), current.String(),
		"a page differs from its picture in the documentation: make pictures, and look at them")
	for _, page := range pictured {
		info, err := os.Stat(filepath.Join(picturesDir, page.name+".png"))
		require.NoError(t, err)
		require.Less(t, info.Size(), int64(largestPicture), page.name)
	}
}

// makePictures writes the pictures.
func makePictures(t *testing.T, p *play) {
	t.Helper()
	b := browser.New(t)
	for _, page := range pictured {
		b.Open(p.http.URL+page.path, page.scheme, 1180)
		if page.name == "vm" {
			b.Do("charts", browser.Holds(`document.querySelector("#picture").complete &&
				document.querySelectorAll("#vmusage svg").length == 4`))
		}
		small := paletted(t, b.Shot())
		require.NoError(t, os.MkdirAll(picturesDir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(picturesDir, page.name+".png"), small, 0o644))
	}
}

// structure returns a hash of a page without its changing values, and of the style rules that apply to it.
func structure(page, style string) string {
	page = regexp.MustCompile(`/static/[0-9a-f]+/`).ReplaceAllString(page, "/static/")
	page = regexp.MustCompile(`<time[^>]*>[^<]*`).ReplaceAllString(page, "<time>")
	page = regexp.MustCompile(`<svg class="chart".*?</svg>`).ReplaceAllString(page, "<svg>")
	hash := sha256.New()
	hash.Write([]byte(page))
	for line := range strings.Lines(style) {
		selector, _, _ := strings.Cut(line, "{")
		names := regexp.MustCompile(`[.#]([a-z][\w-]*)`).FindAllStringSubmatch(selector, -1)
		on := func(name []string) bool { return strings.Contains(page, name[1]) }
		if len(names) == 0 || slices.ContainsFunc(names, on) {
			hash.Write([]byte(line))
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// The hash depends on the page's elements and styles, and not on the time of day.
func TestStructure(t *testing.T) {
	t.Parallel()
	const page, style = `<p class="a">x<time datetime="1">1</time><use href="/static/0a/i.svg">`, ".a { top: 0 }\n.b { top: 1px }\n"
	same := structure(page, style)
	require.Equal(t, same, structure(strings.ReplaceAll(page, "1", "2"), strings.ReplaceAll(style, "1px", "2px")))
	require.Equal(t, same, structure(strings.Replace(page, "/0a/", "/0b/", 1), style))
	require.NotEqual(t, same, structure(page, strings.Replace(style, "0", "5px", 1)))
	require.NotEqual(t, same, structure(strings.Replace(page, ">x<", ">y<", 1), style))
}

// showcase returns a server with VMs of different states and types.
func showcase(t *testing.T) *play {
	t.Helper()
	now := time.Now()
	vm := func(name, kind, os, id string, state fleet.State, cpus, gib int64, age time.Duration) *fleet.VM {
		vm := sample(name, state)
		vm.Type, vm.OS, vm.OSID, vm.Since, vm.Node, vm.User = kind, os, id, now.Add(-age), "", ""
		vm.Problems, vm.Message, vm.Labels, vm.Viewers, vm.RestartAwaitingChanges = nil, "", nil, nil, nil
		vm.Wanted = state != fleet.Stopped
		vm.CPUs = fleet.Amount{Wanted: cpus, Maximum: 2 * cpus}
		vm.RAM = fleet.Amount{Wanted: gib << 30, Maximum: gib << 31}
		if state.Up() {
			vm.Started, vm.CPUs.Now, vm.RAM.Now = now.Add(-age), cpus, gib<<30
			vm.Conditions[0].Since, vm.Conditions[1].Since = vm.Since, vm.Since
			vm.Conditions[1].Status, vm.Conditions[1].Message = "True", ""
			vm.Addresses = []fleet.Address{{Address: "192.168.7.15", From: "Network", Claimed: true}}
			vm.SSH = "ssh 192.168.7.15"
		}
		return vm
	}
	web := vm("web", "standard", "Debian GNU/Linux 12", "debian", fleet.Running, 2, 4, 26*time.Hour)
	web.RestartAwaitingChanges = []fleet.Change{{
		Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 4, DesiredValue: 8,
	}}
	desk := vm("desk-anna", "windows", "Windows 11 Pro", "mswindows", fleet.Running, 4, 8, 3*time.Hour)
	desk.Viewers = []fleet.Viewer{{Kind: "vnc", Who: "anna", Since: now.Add(-time.Hour)}}
	broken := vm("test", "standard", "", "", fleet.Failed, 1, 1, 4*time.Minute)
	broken.Message = `vm.drives[0].file "/images/tset.qcow2": there is no such file`
	p := newPlay(t, web, desk, broken,
		vm("db", "standard", "Fedora Linux 43", "fedora", fleet.Running, 4, 16, 9*24*time.Hour),
		vm("build", "standard", "Ubuntu 24.04 LTS", "ubuntu", fleet.Paused, 8, 16, 20*time.Minute),
		vm("lab", "microvm", "", "", fleet.Starting, 1, 1, 10*time.Second),
		vm("archive", "standard", "", "", fleet.Stopped, 2, 2, 40*24*time.Hour))
	p.picture = desktop(t)
	p.told = happened(now)[:3]
	p.began = now.Add(-time.Hour)
	for i := range 60 {
		use := fleet.Use{CPUs: 10 + int64(i)/9, RAM: (20 + int64(i)/5) << 30}
		p.server.series.addPoint(now.Add(time.Duration(i-60)*time.Minute), use)
	}
	return p
}

// desktop returns a picture of a guest's screen.
func desktop(t *testing.T) []byte {
	t.Helper()
	screen := image.NewPaletted(image.Rect(0, 0, 640, 400), color.Palette{
		color.RGBA{0x1d, 0x3b, 0x53, 255},
		color.RGBA{0x10, 0x18, 0x20, 255},
		color.RGBA{0x9f, 0xd3, 0xc7, 255},
		color.RGBA{0x38, 0x59, 0x70, 255},
	})
	fill := func(x, y, w, h, with int) {
		area, ink := image.Rect(x, y, x+w, y+h), image.NewUniform(screen.Palette[with])
		pixels.Draw(screen, area, ink, image.Point{}, pixels.Src)
	}
	fill(0, 0, 640, 22, 3)
	fill(90, 60, 460, 280, 1)
	fill(90, 60, 460, 22, 3)
	for i, width := range []int{180, 320, 260, 90, 300, 150, 220, 60} {
		fill(110, 100+28*i, width, 8, 2)
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, screen))
	return b.Bytes()
}

// paletted reduces a picture to its 256 most frequent colors.
func paletted(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	counts := map[color.RGBA]int{}
	for y := range full.Bounds().Dy() {
		for x := range full.Bounds().Dx() {
			counts[color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)]++
		}
	}
	more := func(a, b color.RGBA) int { return cmp.Compare(counts[b], counts[a]) }
	colours := slices.SortedFunc(maps.Keys(counts), more)
	palette := color.Palette{}
	for _, c := range colours[:min(len(colours), 256)] {
		palette = append(palette, c)
	}
	small := image.NewPaletted(full.Bounds(), palette)
	pixels.Draw(small, small.Bounds(), full, image.Point{}, pixels.Src)
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small))
	return b.Bytes()
}
