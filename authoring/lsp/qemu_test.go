package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// knowing is a QEMU with few options.
type knowing struct{}

func (knowing) Name() string    { return "QEMU 0" }
func (knowing) Flags() []string { return []string{"-device", "-netdev", "-rtc"} }
func (knowing) Values(flag string) []string {
	return map[string][]string{
		"-device": {"usb-kbd", "usb-mouse"}, "-netdev": {"tap", "user"}, "-machine": {"q35"},
	}[flag]
}

func (knowing) Help(flag, value, property string) string {
	return "help of " + strings.TrimSpace(flag+" "+value+" "+property)
}

func (knowing) Properties(flag, value string) []string {
	return map[string][]string{
		"-device usb-kbd": {"bus", "port"}, "-netdev user": {"hostfwd"},
		"-rtc ": {"base", "clock"}, "-machine q35": {"smm"},
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
			options: Options{QEMU: func(string) QEMU { return knowing{} }},
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

const namedPlan = `load("@vmtypes//standard.star", standard = "launch")

def launch(vm, host):
    """Launches."""
    m = part(
        executable = "/q",
        machine = {"type": "q35"},
        options = [
            option("-netdev", "user", {"id": "net0"}),
            option("-device", "usb-kbd", {"id": "kbd0", "port": 1}),
            option("-rtc", None, {"base": "utc"}),
            option("-nodefaults"),
        ],
        helpers = [process("swtpm", "/swtpm", args = [])],
    )
    return m
`

// Names in the plan of a sample are completed and explained, even while the text can't be parsed.
func TestNamesOfThePlan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	options := inProcessOptions()
	options.QEMU = func(string) QEMU { return knowing{} }
	s := &server{options: options, library: new(libraryCopy), folders: map[string]*folder{}}
	f := s.openFolder(place{dir: dir})
	uri := uriOf(filepath.Join(dir, "a.star"))
	d := &document{uri: uri, module: "a.star"}
	f.open["a.star"] = d
	set := func(content string) {
		d.setContent(newText(content), 1)
		result := options.evaluateFolder(t.Context(), dir, ownTexts(f.open))
		result.keepNames(f.result)
		f.result = result
	}
	set(namedPlan)
	all := []string{"-device kbd0", "-netdev net0", "-nodefaults", "-rtc", "helper swtpm"}
	for marked, want := range map[string][]string{
		`change(m, "|`:                                      {"-device kbd0", "-netdev net0", "-rtc"},
		`change(m, option = "-d|`:                           {"-device kbd0"},
		`replace(m, remove = ["|`:                           all,
		`replace(m, remove = ["h|`:                          {"helper swtpm"},
		`change(m, "-device kbd0", {"|`:                     {"bus", "port"},
		`change(m, props = {"a": 1}, option = "-rtc`:        {"-rtc"},
		`change(m, option = "-device kbd0", props = {"p|`:   {"port"},
		`change(m, "-rtc", {"b|ase": "utc"})`:               {"base"},
		`replace(m, machine = {"|`:                          {"smm"},
		`replace(m, machine = {"type": "|`:                  {"q35"},
		`hotplug.balloon("|`:                                {"kbd0"},
		`hotplug.ports(0, "|`:                               {"net0"},
		`part(ports = {"agent": "|`:                         {"kbd0"},
		`option("-device", "virtio-net-pci", {"netdev": "|`: {"net0"},
		`option("-device", "virtio-net-pci", {"mac": "|`:    {},
		`hotplug.disks("usb-k|`:                             {"usb-kbd"},
		`replace(m, executable = "|`:                        {},
	} {
		before, after, _ := strings.Cut(marked, "|")
		content := strings.Replace(namedPlan, "return m", "return "+before+after, 1)
		set(content)
		list, err := s.complete(t.Context(), &positionParams{
			TextDocument: documentID{uri}, Position: d.text.positionOf(strings.Index(content, before) + len(before)),
		})
		require.NoError(t, err)
		labels := []string{}
		for _, item := range list.Items {
			labels = append(labels, item.Label)
		}
		require.Equal(t, want, labels, marked)
	}
	for marked, want := range map[string]string{
		`change(m, "-device k|bd0", {})`:            "In the plan of a sample: `-device usb-kbd,id=kbd0,port=1`\n\nhelp of -device usb-kbd",
		`change(m, "-device kbd0", {"po|rt": 1})`:   "help of -device usb-kbd port\n\nIn the plan of a sample: `-device usb-kbd,id=kbd0,port=1`",
		`option("-devi|ce", "usb-kbd")`:             "help of -device",
		`option("-device", "usb|-kbd")`:             "help of -device usb-kbd",
		`option("-device", "usb-kbd", {"po|rt":2})`: "help of -device usb-kbd port",
		`replace(m, remove = ["helper s|wtpm"])`:    "",
		`replace(m, machine = {"sm|m": True})`:      "help of -machine q35 smm",
		`hotplug.ports(0, "ne|t0")`:                 "In the plan of a sample: `-netdev user,id=net0`\n\nhelp of -netdev user",
		`print("us|b-kbd")`:                         "",
	} {
		before, after, _ := strings.Cut(marked, "|")
		content := strings.Replace(namedPlan, "return m", "return "+before+after, 1)
		set(content)
		h, err := s.hover(t.Context(), &positionParams{
			TextDocument: documentID{uri},
			Position:     d.text.positionOf(strings.Index(content, before+after) + len(before)),
		})
		require.NoError(t, err)
		text := ""
		if h != nil {
			text = h.Contents.Value
		}
		require.Equal(t, want, text, marked)
	}
	// In a document that has never had a plan, the names are those of the stock type that it loads.
	f.result = nil
	set("load(\"@vmtypes//standard.star\", standard = \"launch\")\n\ndef launch(vm, host):\n    return change(standard(vm, host), \"")
	list, err := s.complete(t.Context(), &positionParams{
		TextDocument: documentID{uri}, Position: d.text.positionOf(len(d.text.content)),
	})
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(list.Items, func(item completionItem) bool {
		return item.Label == "-device balloon0" && strings.HasPrefix(item.Detail, "-device virtio-balloon-pci,")
	}))
}

// QEMU is not asked about a type whose samples need a newer QEMU.
func TestNewerQEMUIsNotAsked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for comment, want := range map[string]int{"": 1, "# needs: qemu >= 0\n": 1, "# needs: qemu >= 1\n": 0} {
		for name, text := range map[string]string{
			"a.star": "def launch(vm, host):\n    return part(executable = \"/q\", options = " +
				"[option(\"-device\", \"usb-new\", {})])\n",
			"a.yaml": comment + "\"/Runner\": {vmType: a, vm: {name: x}}\n",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		options := inProcessOptions()
		options.QEMU = func(string) QEMU { return knowing{} }
		count := 0
		for _, d := range options.evaluateFolder(t.Context(), dir, nil).diagnostics["a.star"] {
			if d.Code == "qemu-device" {
				count++
			}
		}
		require.Equal(t, want, count, comment)
	}
}
