package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// choices returns choices that depend on bytes.
type choices struct {
	bytes []byte
	w     *world
}

func (c *choices) next(n int) int {
	if len(c.bytes) == 0 {
		return 0
	}
	b := int(c.bytes[0])
	c.bytes = c.bytes[1:]
	return b % n
}

func (c *choices) of(list ...string) string { return list[c.next(len(list))] }

// templates are valid options to which the test adds properties with some of the keys. W is the folder, and PORT is an
// allowed port for listening.
var templates = []struct{ option, with, keys string }{
	{"none -chardev socket", "path=W/open/new,server=on,wait=off", "server path server path abstract to fd logfile"},
	{
		"none -chardev socket", "host=127.0.0.1,port=PORT,server=on,wait=off",
		"host port server host port server to ipv4 ipv6 telnet reconnect",
	},
	{"none -chardev file", "path=W/open/new", "path input-path logfile append"},
	{"none -chardev null", "", "logfile path"},
	{
		"none -netdev stream", "server=on,addr.type=inet,addr.host=127.0.0.1,addr.port=PORT",
		"server addr.type addr.host addr.port addr.path addr.str addr.to addr.ipv4 addr.inet.host reconnect",
	},
	{
		"none -netdev stream", "server=on,addr.type=unix,addr.path=W/open/new",
		"server addr.type addr.path addr.abstract addr.tight addr.str addr.host",
	},
	{"none -netdev stream", "server=on,addr.type=fd,addr.str=3", "server addr.type addr.str"},
	{"none -netdev dgram", "local.type=fd,local.str=3", "local.type local.host local.port remote.type remote.host"},
	{"none -netdev user", "", "tftp hostfwd hostname restrict smb guestfwd hostfwd"},
	{"none -netdev socket", "", "fd connect listen"},
	{
		"none -blockdev ", "driver=file,filename=W/open/f,read-only=off",
		"driver filename read-only filename read-only auto-read-only server.host server.port locking readonly",
	},
	{
		"none -blockdev ", "driver=raw,file.driver=file,file.filename=W/read/f,read-only=on",
		"read-only file.read-only file.filename file.driver file.auto-read-only backing.driver",
	},
	{
		"none -drive ", "if=none,format=raw,file=W/open/f",
		"file format readonly read-only snapshot backing.driver backing.file.filename throttling.iops-total",
	},
	{
		"none -drive ", "if=none,format=raw,file.driver=file,file.filename=W/read/f,readonly=on",
		"file.filename file.driver readonly file.read-only driver snapshot file.locking",
	},
	{"none -object rng-random", "", "filename"},
	{"none -object memory-backend-file", "size=65536,mem-path=W/open/f", "mem-path size share readonly"},
	{"none -object secret", "file=W/read/f", "file data format"},
	{"none -object tls-creds-x509", "", "dir endpoint verify-peer"},
	{"none -vnc ", "", "vnc vnc websocket reverse to share"},
	{"none -sandbox ", "spawn=deny,elevateprivileges=deny", "enable spawn elevateprivileges obsolete resourcecontrol"},
	{"q35 -fw_cfg ", "name=opt/x,file=W/read/f", "file string name"},
	{"q35 -smbios ", "type=11,path=W/read/f", "type file path value"},
	{"q35 -device pci-testdev", "", "romfile romfile rombar x addr"},
	{"q35 -device virtio-rng-pci", "", "romfile driver max-bytes vhostfd"},
	{"q35 -boot ", "", "splash order splash-time"},
	{"q35 -initrd ", "", ""},
}

// value returns a likely value for a property or, in one of five cases, any value.
func (c *choices) value(key string) string {
	if c.next(5) == 0 {
		return c.any()
	}
	w := c.w
	file := func() string {
		return c.of(w.dir+"/open/f", w.dir+"/open/new", w.dir+"/read/f", w.dir+"/secret/f", w.dir+"/secret/s", "f")
	}
	last := key[strings.LastIndex(key, ".")+1:]
	switch last {
	case "path", "filename", "file", "logfile", "input-path", "romfile", "mem-path", "kernel", "initrd", "splash",
		"firmware", "dumpdtb", "dtb":
		return file()
	case "tftp", "dir":
		return c.of(w.dir+"/open", w.dir+"/read", w.dir+"/secret")
	case "type":
		return c.of("inet", "unix", "fd", "11", "q35", "vsock")
	case "host":
		return c.of("127.0.0.1", "127.0.0.1", "localhost", "0.0.0.0", "", "0x7f000001", "2130706433", "127.1")
	case "port", "to":
		return c.port()
	case "fd", "str", "fds", "vhostfd":
		return c.of("3", "03", "0x3", "-1")
	case "driver", "format":
		return c.of("file", "raw", "host_device", "nbd", "null-co", "vvfat")
	case "spawn", "elevateprivileges", "obsolete", "resourcecontrol":
		return c.of("deny", "deny", "deny", "allow", "children")
	case "hostfwd":
		return c.of("tcp", "udp", "") + ":" + c.of("127.0.0.1", "", "0", "0.0.0.0") + ":" + c.port() + "-:22"
	case "vnc":
		return c.of("127.0.0.1:", "0.0.0.0:", ":", "unix:"+file(), "unix:") + c.of("1", "2", "-1", "")
	case "name":
		return "opt/x"
	case "size":
		return "65536"
	}
	return c.toggle()
}

func (c *choices) port() string {
	return c.of(fmt.Sprint(c.w.opened), fmt.Sprint(c.w.closed), "4444", fmt.Sprintf("%#x", c.w.closed))
}

func (c *choices) toggle() string {
	return c.of("on", "off", "yes", "no", "true", "false", "y", "n", "ON", "0", "1", "")
}

// any returns a value of any kind, or two values with a separator.
func (c *choices) any() string {
	f := c.w.dir + "/secret/f"
	ok := c.w.dir + "/open/f"
	return c.of("on", "n", "3", "127.0.0.1", "{}", "json:{\"driver\":\"file\",\"filename\":\""+f+"\"}", "fat:"+f,
		"nbd:127.0.0.1:"+fmt.Sprint(c.w.closed), "unix:"+c.w.dir+"/secret/s", ok+","+f, ok+",,"+f, f+" "+ok, ok+" "+f,
		ok+",filename="+f, ok+",server=off", c.w.dir+"/open/../secret/f", "/proc/self/fd/3", "/dev/fdset/3", "file:"+f,
		"tcp:127.0.0.1:"+fmt.Sprint(c.w.closed), f, "inet", "1.2.3")
}

// list returns files with separators.
func (c *choices) list() string {
	one := func() string { return c.w.dir + "/" + c.of("open", "read", "secret", "open/../secret") + "/f" }
	return one() + c.of("", ",", ",,", " ", "  ", ", ", ",a") + c.of("", one(), one())
}

// spelling returns a machine and one or two options.
func (c *choices) spelling() (machine string, options []plan.Option) {
	template := templates[c.next(len(templates))]
	machine, rest, _ := strings.Cut(template.option, " ")
	flag, value, _ := strings.Cut(rest, " ")
	o := plan.Option{Flag: flag, Value: value, List: true}
	keys, added := strings.Fields(template.keys), 1+c.next(3)
	names := strings.NewReplacer("W/", c.w.dir+"/", "PORT", fmt.Sprint(c.w.opened))
	_, pairs := qemuopt.Parse(names.Replace(template.with))
	for _, p := range pairs {
		o.Properties = append(o.Properties, plan.Property{Key: p.Key, Value: p.Value})
	}
	for range min(added, len(keys)) {
		key := keys[c.next(len(keys))]
		o.Properties = append(o.Properties, plan.Property{Key: key, Value: c.value(key)})
	}
	switch flag {
	case "-chardev", "-netdev", "-object", "-drive":
		o.Properties = append(o.Properties, plan.Property{Key: "id", Value: "x"})
	case "-blockdev":
		o.Properties = append(o.Properties, plan.Property{Key: "node-name", Value: "x"})
	case "-initrd":
		return machine, []plan.Option{{Flag: "-kernel", Value: c.w.dir + "/read/k"}, {Flag: "-initrd", Value: c.list()}}
	case "-sandbox":
		o.Value = c.of("on", "yes", "y", "off", "true")
	}
	switch c.next(12) {
	case 0: // as a single text
		o = plan.Option{Flag: flag, Value: o.Words(nil)[1]}
	case 1:
		o.Flag = "-" + o.Flag
	case 2: // after an option without its value
		eats := plan.Option{Flag: c.of("-append", "-name", "-rtc")}
		return machine, []plan.Option{o, eats, {Flag: "-uuid", Value: c.value("file")}}
	}
	return machine, []plan.Option{o}
}

// judged runs QEMU with an allowed plan, and compares QEMU's actions with the policy's interpretation.
func judged(t testing.TB, w *world, data []byte, seen map[string]bool) (allowed, ran bool) {
	t.Helper()
	machine, options := (&choices{data, w}).spelling()
	p := w.plan(machine, options...)
	words := strings.Join(p.QEMU.Argv(), " ")
	if seen[words] || !w.allows(p) {
		return false, false
	}
	seen[words] = true
	did := w.runs(t, p)
	require.Empty(t, did.forbidden, "%s\n%s", words, did.stderr)
	require.True(t, did.sandboxed || !did.ran, words)
	for _, address := range did.listens {
		own := strings.HasPrefix(address, w.dir+"/open/") || address == fmt.Sprintf("127.0.0.1:%d", w.opened)
		require.True(t, own, "%s listens on %s", words, address)
	}
	at, is, err := options[0].Structured().Endpoint()
	require.False(t, is && err != nil, "%s: allowed, though %v", words, err)
	require.True(t, !is || at.Server || did.listens == nil, "%s: no server", words)
	return true, did.ran
}

// seeded judges spellings until the policy has allowed the wanted number. It returns the number of spellings, and how
// many of the allowed spellings QEMU accepted.
func seeded(t *testing.T, wanted int) (spellings, ran int) {
	t.Helper()
	w := newWorld(t)
	random, seen := rand.New(rand.NewPCG(1, 2)), map[string]bool{}
	for allowed := 0; allowed < wanted; spellings++ {
		data := make([]byte, 48)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		is, took := judged(t, w, data, seen)
		if is {
			allowed++
		}
		if took {
			ran++
		}
	}
	return spellings, ran
}

// For each spelling that the policy allows, a real QEMU only touches the allowed files, servers and descriptors, and
// runs in its sandbox.
func TestQEMUDoesWhatThePolicyUnderstands(t *testing.T) {
	t.Parallel()
	spellings, ran := seeded(t, 100)
	require.Greater(t, spellings, 400)
	require.Greater(t, ran, 40)
}

func TestQEMUDoesWhatThePolicyUnderstandsManyTimes(t *testing.T) {
	tier.Deep(t)
	spellings, ran := seeded(t, 1500)
	t.Logf("%d spellings, of 1500 that the policy allows QEMU took %d", spellings, ran)
}

func FuzzWhatQEMUDoes(f *testing.F) {
	w := newWorld(f)
	for template := range templates {
		f.Add([]byte{byte(template), 2, 0, 1, 0, 1, 1, 1, 2, 1, 0, 11})
	}
	f.Fuzz(func(t *testing.T, data []byte) { judged(t, w, data, map[string]bool{}) })
}

// With a multiboot kernel, which a guest can write to its disk, QEMU reads each file of a list with commas, and the
// text before a blank.
func TestQEMUReadsEachInitrd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, list := range []string{"open/f,W/secret/f", "secret/f W/open/f"} {
		list = w.dir + "/" + strings.ReplaceAll(list, "W", w.dir)
		kernel := plan.Option{Flag: "-kernel", Value: w.dir + "/read/k"}
		p := w.plan("q35", kernel, plan.Option{Flag: "-initrd", Value: list})
		require.False(t, w.allows(p), list)
		did := w.runs(t, p)
		require.True(t, did.ran, did.stderr)
		require.NotEmpty(t, did.forbidden, "QEMU reads %s, if it is let", list)
	}
}
