package confinement_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/internal/confine"
	"vmop/vmtypes"
	"vmop/vmtypes/confinement"
	"vmop/vmtypes/plan"
)

var update = flag.Bool("update", false, "write the goldens anew")

// everyProgram is the reason for the rules of all processes.
const everyProgram = "every program"

// samples are machines that together need every kind of rule.
var samples = []string{
	"../testdata/golden/minimal.txtar",
	"../testdata/golden/everything.txtar",
	"../testdata/golden/windows.txtar",
	"../testdata/golden/microvm.txtar", // with a user network, but without a medium
	"../testdata/golden/no-network.txtar",
	"../../examples/vmtypes/capture-two-cards.txtar",
	"../../examples/vmtypes/passthrough-graphics-card.txtar",
	"../../examples/vmtypes/shares-on-debian-12.txtar",
	"../../examples/vmtypes/vsock-without-network.txtar",
}

func planOf(t *testing.T, path string) *plan.Plan {
	t.Helper()
	library, err := vmtypes.Open("../../examples/vmtypes")
	require.NoError(t, err)
	defer library.Close()
	s, err := sample.Read(path)
	require.NoError(t, err)
	p, err := s.Plan(t.Context(), library)
	require.NoError(t, err)
	return p
}

// The rules of each machine match the golden in testdata. Only the golden of the smallest machine contains the rules
// for every program.
func TestGoldens(t *testing.T) {
	t.Parallel()
	for i, path := range samples {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			media := map[int]string{0: "/images/a.iso"}
			for _, d := range confinement.Of(planOf(t, path), confinement.Facts{Media: media}) {
				fmt.Fprintf(&b, "%s exempt=%t\n", d.Process, d.Exempt)
				for _, r := range d.Rules {
					if r.Why != everyProgram || i == 0 {
						fmt.Fprintf(&b, "    %-10s %s  # %s\n", r.Kind, r.Name, r.Why)
					}
				}
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String(), "go test ./vmtypes/confinement -update")
		})
	}
}

// rulesOf returns the rules for one option, without the rules that QEMU always needs.
func rulesOf(o plan.Option, live ...plan.Rule) (list []string) {
	none := map[string]bool{}
	p := &plan.Plan{QEMU: plan.Process{Name: "qemu", Executable: "/usr/bin/qemu"}}
	key := func(r confinement.Rule) string { return string(r.Kind) + " " + r.Name }
	for _, r := range confinement.Of(p, confinement.Facts{})[0].Rules {
		none[key(r)] = true
	}
	p.QEMU.Args, p.Rules = []plan.Option{o}, live
	for _, r := range confinement.Of(p, confinement.Facts{Bases: base})[0].Rules {
		if !none[key(r)] && !strings.HasPrefix(r.Name, "/etc/") && !strings.HasPrefix(r.Name, "/run/") {
			list = append(list, key(r))
		}
	}
	return list
}

func base(image string) []string { return []string{image + ".base"} }

// The table of options determines what an option needs, independent of its notation.
func TestWhatAnOptionNeeds(t *testing.T) {
	t.Parallel()
	anywhere := []string{"listen any", "connect any"}
	for text, want := range map[string][]string{
		"-kernel /boot/vmlinuz":                         {"read /boot/vmlinuz"},
		"-append root=/dev/vda1":                        nil,
		"-machine q35,accel=kvm":                        {"write /dev/kvm"},
		"-machine q35,firmware=/fw":                     {"read /fw"},
		"-accel kvm":                                    {"write /dev/kvm"},
		"-accel tcg":                                    nil,
		"-blockdev driver=file,node-name=a,filename=/a": {"write /a"},
		"-blockdev driver=file,node-name=a,filename=/a,read-only=on":                   {"read /a"},
		`-blockdev {"driver":"file","node-name":"a","filename":"/a","read-only":true}`: {"read /a"},
		"-blockdev driver=qcow2,node-name=a,file.driver=file,file.filename=/a":         {"read /a.base", "write /a"},
		"-blockdev driver=raw,node-name=a,file.driver=file,file.filename=/a":           {"write /a"},
		"-blockdev driver=https,node-name=a,url=https://b/c":                           anywhere,
		"-drive if=none,id=a,file=/a,format=raw,readonly=on":                           {"read /a"},
		"-drive if=none,id=a,file=/a,format=raw":                                       {"write /a"},
		"-drive if=none,id=a,file.driver=https,file.url=https://b/c,format=raw":        anywhere,
		"-chardev file,id=a,path=/log":                                                 {"create /log"},
		"-chardev socket,id=a,path=/run-vm/a.sock,server=on,wait=off":                  {"sockets /run-vm"},
		"-chardev socket,id=a,path=/run-vm/a.sock,server=on,logfile=/log":              {"create /log", "sockets /run-vm"},
		"-chardev socket,id=a,path=/run-vm/a.sock":                                     {"reach /run-vm/a.sock"},
		"-chardev socket,id=a,host=::1,port=80,server=on": {
			"listen 80", "capability net_bind_service",
		},
		"-chardev socket,id=a,host=::1,port=8000":                                  {"connect 8000"},
		"-chardev socket,id=a,host=::1,port=8000,server=n":                         {"connect 8000"},
		"-chardev socket,id=a,host=::1,port=8000,noserver":                         {"connect 8000"},
		"-chardev socket,id=a,host=::1,port=8000,server=y":                         {"listen 8000"},
		"-chardev socket,id=a,path=/run-vm/a.sock,server=n":                        {"reach /run-vm/a.sock"},
		"-netdev stream,id=a,server=n,addr.type=inet,addr.host=::1,addr.port=8000": {"connect 8000"},
		"-netdev stream,id=a,server=y,addr.type=inet,addr.host=::1,addr.port=8000": {"listen 8000"},
		"-netdev stream,id=a,server=on,addr.type=unix,addr.path=/run-vm/a":         {"sockets /run-vm"},
		"-netdev stream,id=a,addr.type=unix,addr.path=/run-vm/a":                   {"reach /run-vm/a"},
		"-netdev stream,id=a,addr.type=fd,addr.str=3":                              nil,

		`-netdev {"type":"stream","id":"a","addr":{"type":"inet","host":"::1","port":"8000"}}`: {"connect 8000"},
		"-initrd /boot/a,/etc/shadow": {"read /boot/a"},
		"-chardev pty,id=a": {
			"write /dev/ptmx", "write /dev/pts", "listen any", "connect any",
		},
		"-serial file:/log":                             {"write /log", "listen any", "connect any"},
		"-serial chardev:a":                             nil,
		"-vnc unix:/run-vm/vnc":                         {"sockets /run-vm"},
		"-vnc 127.0.0.1:7,password=on":                  {"listen 5907"},
		"-vnc none":                                     nil,
		"-spice port=5900,tls-port=5901,x509-dir=/keys": {"read /keys", "listen 5900", "listen 5901"},
		"-spice unix=on,addr=/run-vm/spice":             {"sockets /run-vm"},
		"-netdev tap,id=a,fd=3":                         nil,
		"-netdev tap,id=a,fd=3,vhost=on":                {"write /dev/vhost-net"},
		"-netdev tap,id=a,fd=3,vhost=off":               nil,
		"-netdev tap,id=a,ifname=b":                     {"write /dev/net/tun"},
		"-netdev user,id=a,hostfwd=tcp:127.0.0.1:2222-:22,hostfwd=udp::53-:53,tftp=/srv": {
			"read /srv", "listen free", "listen 2222", "connect any", "except loopback",
		},
		"-netdev socket,id=a,listen=:1":                                    anywhere,
		"-device vhost-vsock-pci,guest-cid=3":                              {"write /dev/vhost-vsock"},
		"-device virtio-net-pci,romfile=/rom":                              {"read /rom"},
		"-device scsi-block,drive=a":                                       {"capability sys_rawio"},
		"-object memory-backend-file,id=a,mem-path=/dev/hugepages,size=1G": {"write /dev/hugepages"},
		"-object filter-dump,id=a,netdev=b,file=/a.pcap":                   {"create /a.pcap"},
		"-object rng-random,id=a,filename=/dev/hwrng":                      {"read /dev/hwrng"},
		"-overcommit mem-lock=on":                                          {"capability ipc_lock"},
		"-newflag whatever=/a":                                             {"write /a", "listen any", "connect any"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			flag, value, _ := strings.Cut(text, " ")
			require.ElementsMatch(t, want, rulesOf(plan.Option{Flag: flag, Value: value}))
			o := plan.Option{Flag: flag, Value: value}.Structured()
			require.ElementsMatch(t, want, rulesOf(o), "as a list")
		})
	}
}

// A medium can be changed to another file in the folder, or to a URL.
func TestWhatAMediumNeeds(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"read " + confinement.DefaultRepository, "connect any"},
		rulesOf(plan.Option{Flag: "-nodefaults"}, plan.Medium{Drive: 3, Device: "cd0"}))
	p := &plan.Plan{
		QEMU:  plan.Process{Name: "qemu", Executable: "/usr/bin/qemu"},
		Rules: []plan.Rule{plan.Medium{Drive: 3, Device: "cd0"}},
	}
	d := confinement.Of(p, confinement.Facts{Media: map[int]string{3: "/images/a.iso", 4: "/other/b.iso"}})[0]
	require.Contains(t, d.Text(false), "    read       /images\n")
	require.NotContains(t, d.Text(false), "/other")
	for _, file := range []string{"/a.iso", "/home/me/a.iso", "/root/a.iso"} {
		facts := confinement.Facts{Media: map[int]string{3: file}, Home: "/home/me", Repository: "/repo"}
		require.False(t, confinement.Of(p, facts)[0].MayRead("/uploads/b.iso"))
		facts.Uploads = "/uploads"
		d := confinement.Of(p, facts)[0]
		require.True(t, d.MayRead(file), "itself")
		require.True(t, d.MayRead("/repo/b.iso"))
		require.True(t, d.MayRead("/uploads/b.iso"))
		require.False(t, d.MayRead(filepath.Dir(file)+"/.ssh/id"), "not what else is beside %s", file)
	}
	require.True(t, d.MayRead("/images/b.iso"))
	require.False(t, d.MayRead("/imagesb.iso"))
}

// QEMU may only change modes and dates of files with options that share folders. Helpers always may.
func TestWhoChangesAttributes(t *testing.T) {
	t.Parallel()
	for word, keeps := range map[string]bool{
		"-virtfs local,path=/a,mount_tag=a,security_model=none":    true,
		"--fsdev local,id=a,path=/a,security_model=none":           true,
		"-device usb-mtp,rootdir=/a":                               true,
		"-object authz-list-file,id=a,filename=/a":                 true,
		"-device usb-tablet":                                       false,
		"-blockdev node-name=a,driver=file,filename=/a":            false,
		"-chardev socket,id=a,path=/run/a.sock,server=on,wait=off": false,
	} {
		flag, value, _ := strings.Cut(word, " ")
		p := &plan.Plan{
			QEMU:    plan.Process{Name: "qemu", Args: []plan.Option{{Flag: flag, Value: value}}},
			Helpers: []plan.Process{{Name: "swtpm", Role: plan.RoleTPM}},
		}
		domains := confinement.Of(p, confinement.Facts{})
		require.Equal(t, keeps, !domains[1].Kernel().NoAttributes, word)
		require.False(t, domains[0].Kernel().NoAttributes)
	}
}

// Servers of CDs cannot redirect QEMU to internal addresses if there is a user network, or if the first medium is a
// URL. In a pod, QEMU's libraries cannot reach loopback addresses either.
func TestWhatServersOfCDsLeadTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option, file string
		internal     bool
	}{
		"a CD by URL":                    {"-nodefaults", "https://mirror.example/a.iso", true},
		"a file":                         {"-nodefaults", "/images/a.iso", false},
		"a drive beside a user network":  {"-netdev", "", true},
		"an empty drive without network": {"-nodefaults", "", false},
	} {
		o := plan.Option{Flag: c.option}
		if c.option == "-netdev" {
			o.Value = "user,id=a"
		}
		p := &plan.Plan{
			QEMU: plan.Process{Args: []plan.Option{o}}, Rules: []plan.Rule{plan.Medium{Drive: 0, Device: "cd0"}},
		}
		for _, pod := range []bool{true, false} {
			k := confinement.Of(p, confinement.Facts{Media: map[int]string{0: c.file}, Pod: pod})[0].Kernel()
			require.Equal(t, c.internal, k.NoInternal, name)
			require.Equal(t, c.internal && pod, k.NoOwnLoopback, name)
			require.Equal(t, c.internal, k.NoLoopback, name)
		}
	}
}

// A helper may use the paths in its arguments and in its access list. A helper that confines itself has no rules.
func TestWhatAHelperNeeds(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Helpers: []plan.Process{
		{
			Name: "a", Executable: "/opt/a/bin/a", Dir: "/work", Ready: "/run-vm/a/ready",
			Args: []plan.Option{
				{Flag: "--log=/log"},
				{Flag: "-s", Value: "unix:/run-vm/s"},
				{Flag: "http://b/c"},
				{Flag: "-o", List: true, Properties: []plan.Property{{Key: "dir", Value: "/srv/a,b"}}},
			},
			Access: []plan.Access{{Path: "/etc/a", Mode: plan.AccessRead}, {Path: "/dev/a", Mode: plan.AccessWrite}},
		},
		{Name: "b", Executable: "/usr/bin/b", Exempt: true},
		{Name: "tpm", Executable: "/usr/bin/swtpm", Role: plan.RoleTPM},
	}}
	domains := confinement.Of(p, confinement.Facts{})
	text := domains[0].Text(false)
	for _, want := range []string{
		"read       /opt/a/bin/a", "read       /opt/a/lib", "read       /etc/a", "write      /dev/a", "write      /log",
		"write      /run-vm/s", "write      /run-vm/a", "write      /work", "write      /srv/a", "listen     any",
		"capability setuid",
	} {
		require.Contains(t, text, "    "+want+"\n")
	}
	require.NotContains(t, text, "/c\n")
	require.Equal(t, "confinement of b\n    none: it confines itself\n", domains[1].Text(true))
	require.Nil(t, domains[1].Kernel())
	require.NotContains(t, domains[2].Text(false), "any\n", "a TPM has no network")
}

// The rules for the kernel match the printed rules.
func TestKernel(t *testing.T) {
	t.Parallel()
	d := confinement.Domain{Rules: []confinement.Rule{
		{Kind: confinement.Read, Name: "/a"},
		{Kind: confinement.Write, Name: "/b"},
		{Kind: confinement.Create, Name: "/c"},
		{Kind: confinement.Sockets, Name: "/d"},
		{Kind: confinement.Reach, Name: "/e"},
		{Kind: confinement.Listen, Name: "80"},
		{Kind: confinement.Connect, Name: confinement.AnyPort},
		{Kind: confinement.Capability, Name: "chown"},
	}}
	require.Equal(t, &confine.Rules{
		Paths: []confine.Path{
			{Name: "/a", Access: confine.Read},
			{Name: "/b", Access: confine.Write},
			{Name: "/c", Access: confine.Write, Make: true},
			{Name: "/d", Access: confine.Sockets},
			{Name: "/e"},
		},
		Listen: confine.Ports{List: []uint16{80}}, Connect: confine.Ports{Any: true}, Capabilities: []string{"chown"},
	}, d.Kernel())
}

// With reasons, each line ends with the option and its origin.
func TestWhy(t *testing.T) {
	t.Parallel()
	at := plan.Origin{{File: "a.star", Line: 3, Function: "launch"}}
	d := confinement.Domain{Process: "qemu", Rules: []confinement.Rule{
		{Kind: confinement.Read, Name: "/boot/a", Why: "-kernel /boot/a", Origin: at},
	}}
	require.Equal(t, "confinement of qemu\n    read       /boot/a\n", d.Text(false))
	require.Equal(t, "confinement of qemu\n    read       /boot/a"+strings.Repeat(" ", 38)+
		"  # -kernel /boot/a < a.star:3 launch\n", d.Text(true))
	d = confinement.Domain{Rules: []confinement.Rule{{Kind: confinement.Read, Name: "/a\n    read /b", Why: "a\rb"}}}
	require.Equal(t, 2, strings.Count(d.Text(true), "\n"), "no name forges a line")
	require.NotContains(t, d.Text(true), "\r")
}
