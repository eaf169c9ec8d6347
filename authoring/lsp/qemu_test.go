package lsp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/lint"
)

// knowing is a QEMU with few options.
type knowing struct{}

func (knowing) Name() string    { return "QEMU 0" }
func (knowing) Flags() []string { return []string{"-device", "-netdev", "-rtc"} }
func (knowing) Values(flag string) []string {
	return map[string][]string{"-device": {"usb-kbd", "usb-mouse"}, "-netdev": {"tap", "user"}}[flag]
}

func (knowing) Properties(flag, value string) []string {
	return map[string][]string{
		"-device usb-kbd": {"bus", "port"}, "-netdev user": {"hostfwd"},
		"-rtc ": {"base", "clock"},
	}[flag+" "+value]
}

func TestNamesOfQEMUAreCompleted(t *testing.T) {
	t.Parallel()
	const head = "load(\"@vmtypes//lib/qemu.star\", \"device\", net = \"netdev\")\n\nx = [\n    "
	for marked, want := range map[string][]string{
		`option("|"`: {"-device", "-netdev", "-rtc"}, `option("-r|`: {"-rtc"}, `option("-device", "usb-k|`: {"usb-kbd"},
		`option("-device", "usb-kbd", {"|": 1})`:    {"bus", "port"},
		`option("-rtc", None, {"base": "utc", "cl|`: {"clock"},
		`option("-rtc", None, {"base": "|`:          nil, `device("|`: {"usb-kbd", "usb-mouse"},
		`device("usb-kbd", {"id": "a", "po|rt"`: {"port"},
		`net("n", "|`:                           {"tap", "user"}, `net("n", "user", {"h|`: {"hostfwd"}, `net("|`: nil,
		`other("|`: nil, `device(f(1, "x"), {"|`: nil,
	} {
		before, after, _ := strings.Cut(marked, "|")
		s := &server{
			options: Options{QEMU: func(string) lint.QEMU { return knowing{} }},
			library: new(libraryCopy), folders: map[string]*folder{},
		}
		f := s.openFolder(place{})
		d := &document{uri: "untitled:x.star", module: "x.star"}
		d.setContent(newText(head+"]\n"), 1)
		d.setContent(newText(head+before+after), 2)
		f.open["x.star"] = d
		at := d.text.positionOf(len(head + before))
		list, err := s.complete(t.Context(), &positionParams{TextDocument: documentID{d.uri}, Position: at})
		require.NoError(t, err)
		var labels []string
		for _, item := range list.Items {
			labels = append(labels, item.Label)
		}
		require.Equal(t, want, labels, marked)
	}
}
