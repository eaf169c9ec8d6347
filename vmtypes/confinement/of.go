package confinement

import (
	"cmp"
	"path"
	"strings"

	"vmop/vmtypes/plan"
)

// Facts are what a plan doesn't show.
type Facts struct {
	// Media are the files of the CD drives, by their index in vm.drives.
	Media map[int]string
	// Repository is the folder where the images of media may be, whatever is in the
	// drives when the VM starts; empty means DefaultRepository.
	Repository string
	// Home is the user's folder, or empty.
	Home string
	// Bases returns the files that an image is an overlay of, as its header says. It
	// may be nil.
	Bases func(image string) []string
	// HostLoopback says that the guest may reach loopback addresses by a user network.
	HostLoopback bool
	// Pod says that the runner is in a pod of the manager.
	Pod bool
	// NBD is what drives of NBD servers need, which are attached while the machine runs.
	NBD NBD
	// Copies is the folder of the socket by which disks are copied to where the guest moves; "": they never are.
	Copies string
}

// NBD is what QEMU needs of the host for drives of NBD servers.
type NBD struct {
	// Folders have certificates.
	Folders []string
	// Ports are those of servers; AnyPort says that others come later.
	Ports   []uint16
	AnyPort bool
}

// DefaultRepository is where the manager mounts the image repository.
const DefaultRepository = "/var/local/vmop-image-repository"

// Images returns the folder where the images of media may always be.
func (f Facts) Images() string { return cmp.Or(f.Repository, DefaultRepository) }

// folderOf returns the folder of a medium, which another may come from; the medium
// itself where the folder has more than images.
func (f Facts) folderOf(medium string) string {
	switch folder := path.Dir(medium); folder {
	case "/", "/dev", "/etc", "/home", "/root", "/run", "/tmp", "/var", "/var/tmp", f.Home:
		return medium
	default:
		return folder
	}
}

// Of returns what the processes of a plan may use, in the order of plan.Processes.
func Of(p *plan.Plan, facts Facts) []Domain {
	domains := make([]Domain, 0, len(p.Helpers)+1)
	for place := range len(p.Helpers) + 1 {
		domains = append(domains, OfProcess(p, facts, place))
	}
	return domains
}

// OfProcess returns what the process with a place in plan.Processes may use.
func OfProcess(p *plan.Plan, facts Facts, place int) Domain {
	if place < len(p.Helpers) {
		return helper(&p.Helpers[place])
	}
	return qemu(p, facts)
}

// rules are those of one process, in the making.
type rules struct {
	list   []Rule
	why    string
	origin plan.Origin
}

func (r *rules) add(kind Kind, names ...string) {
	for _, name := range names {
		r.list = append(r.list, Rule{Kind: kind, Name: name, Why: r.why, Origin: r.origin})
	}
}

// because sets the reason of the rules that follow.
func (r *rules) because(why string, origin plan.Origin) { r.why, r.origin = why, origin }

// option sets an option as the reason of the rules that follow.
func (r *rules) option(o *plan.Option) {
	r.because(strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), " "), o.Origin)
}

// What every program needs. Folders with private keys beside certificates are left out.
const (
	programs = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store"
	settings = "/etc/ld.so.cache /etc/ld.so.preload /etc/localtime /etc/ssl/openssl.cnf /etc/pki/tls/openssl.cnf " +
		"/etc/crypto-policies /etc/gnutls/config"
	kernel = "/proc/cpuinfo /proc/filesystems /proc/meminfo /proc/stat /proc/sys/vm/overcommit_memory " +
		"/proc/sys/kernel/random /sys/devices/system /sys/kernel/mm /sys/module/vhost/parameters " +
		"/dev/random /dev/urandom"
	devices = "/dev/full /dev/null /dev/zero"
	// resolver has what finds the addresses of names, and tells servers by certificates.
	resolver = "/etc/resolv.conf /etc/hosts /etc/host.conf /etc/nsswitch.conf /etc/gai.conf /etc/services " +
		"/run/systemd/resolve /run/resolvconf /run/NetworkManager/resolv.conf " +
		"/etc/ssl/certs /etc/ca-certificates /etc/pki/ca-trust /etc/pki/tls/certs"
)

// program adds what every program needs, and what this one's installation has.
func (r *rules) program(p *plan.Process) {
	r.because("every program", nil)
	r.add(Read, strings.Fields(programs+" "+settings+" "+kernel)...)
	r.add(Write, strings.Fields(devices)...)
	// Files that root, or the user, has been given by others.
	r.add(Capability, "dac_override")
	r.because("the program", nil)
	r.add(Read, p.Executable)
	if prefix, ok := strings.CutSuffix(path.Dir(p.Executable), "/bin"); ok && prefix != "" && prefix != "/usr" {
		r.add(Read, prefix+"/lib", prefix+"/lib64", prefix+"/libexec", prefix+"/share/qemu", prefix+"/share/seabios")
	}
	for _, a := range p.Access {
		r.because("access("+a.Path+", "+a.Mode+")", a.Origin)
		r.add(map[string]Kind{plan.AccessRead: Read, plan.AccessWrite: Write}[a.Mode], a.Path)
	}
}

// helper returns what a process beside QEMU may use. What its arguments mean is known
// of the TPM only; the others' name what they use.
func helper(p *plan.Process) Domain {
	if p.Exempt {
		return Domain{Process: p.Name, Exempt: true}
	}
	r := &rules{}
	r.program(p)
	r.because("its working directory", nil)
	if p.Dir != "" {
		r.add(Write, p.Dir)
	}
	for i := range p.Args {
		o := &p.Args[i]
		r.option(o)
		r.add(Write, named(o.Flag)...)
		r.add(Write, named(o.Value)...)
		for _, property := range o.Properties {
			r.add(Write, named(property.Value)...)
		}
	}
	if p.Ready != "" {
		r.because("it makes "+p.Ready+" when it is ready", nil)
		r.add(Write, path.Dir(p.Ready))
	}
	if p.Role != plan.RoleTPM {
		r.because("what it does is not known", nil)
		r.add(Listen, AnyPort)
		r.add(Connect, AnyPort)
		r.add(Read, strings.Fields(resolver+" /proc")...)
		r.add(Capability, "chown", "fowner", "fsetid", "net_bind_service", "setgid", "setuid")
	}
	return Domain{Process: p.Name, Rules: sorted(r.list)}
}

// named returns the path that a text is, or ends with: "/a", "unix:/a".
func named(text string) []string {
	if i := strings.Index(text, "/"); i >= 0 && !strings.Contains(text, "://") && (i == 0 || text[i-1] == ':' ||
		text[i-1] == '=') {
		return []string{path.Clean(strings.SplitN(text[i:], ",", 2)[0])}
	}
	return nil
}
