package confinement

import (
	"cmp"
	"path"
	"strings"

	"vmop/vmtypes/plan"
)

// Facts contains additional information outside the plan.
type Facts struct {
	// Media are the files of the CD drives, by their index in vm.drives.
	Media map[int]string
	// Repository is the folder for the images of media. It is always allowed, independent of the media in the
	// drives at the start of the VM. Empty means DefaultRepository.
	Repository string
	// Uploads is the folder for files that users upload for several VMs. QEMU may read the media in it, like those in
	// Repository; "" if there is none.
	Uploads string
	// Home is the user's home folder, or empty.
	Home string
	// Bases returns the files that an overlay image depends on, according to its header. It may be nil.
	Bases func(image string) []string
	// HostLoopback means that the guest may reach loopback addresses via a user network.
	HostLoopback bool
	// Pod means that the runner is in a pod of the manager.
	Pod bool
	// NBD contains what QEMU needs for drives of NBD servers that are attached while the machine is running.
	NBD NBD
	// Copies is the folder of the socket that is used to copy disks to the guest's new place; "" if disks are
	// never copied.
	Copies string
}

// NBD contains what QEMU needs from the host for drives of NBD servers.
type NBD struct {
	// Folders are folders with certificates.
	Folders []string
	// Ports are the ports of servers; AnyPort means that other ports follow later.
	Ports   []uint16
	AnyPort bool
}

// DefaultRepository is the mount point of the image repository in the manager's pods.
const DefaultRepository = "/var/local/vmop-image-repository"

// Images returns the folder for the images of media.
func (f Facts) Images() string { return cmp.Or(f.Repository, DefaultRepository) }

// mediumFolder returns the folder of a medium, because the next medium may come from the same folder. It returns the
// medium itself if the folder contains other files.
func (f Facts) mediumFolder(medium string) string {
	switch folder := path.Dir(medium); folder {
	case "/", "/dev", "/etc", "/home", "/root", "/run", "/tmp", "/var", "/var/tmp", f.Home:
		return medium
	default:
		return folder
	}
}

// Of returns the domains of a plan's processes, in the order of plan.Processes.
func Of(p *plan.Plan, facts Facts) []Domain {
	domains := make([]Domain, 0, len(p.Helpers)+1)
	for place := range len(p.Helpers) + 1 {
		domains = append(domains, OfProcess(p, facts, place))
	}
	return domains
}

// OfProcess returns the domain of the process at a place in plan.Processes.
func OfProcess(p *plan.Plan, facts Facts, place int) Domain {
	if place < len(p.Helpers) {
		return helperDomain(&p.Helpers[place])
	}
	return qemuDomain(p, facts)
}

// rules collects the rules of one process.
type rules struct {
	list   []Rule
	why    string
	origin plan.Origin
}

func (r *rules) addRules(kind Kind, names ...string) {
	for _, name := range names {
		r.list = append(r.list, Rule{Kind: kind, Name: name, Why: r.why, Origin: r.origin})
	}
}

// setReason sets the reason for the rules that follow.
func (r *rules) setReason(why string, origin plan.Origin) { r.why, r.origin = why, origin }

// setOptionReason sets an option as the reason for the rules that follow.
func (r *rules) setOptionReason(o *plan.Option) {
	r.setReason(strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), " "), o.Origin)
}

// Files that every program needs. Folders that contain private keys in addition to certificates are excluded.
const (
	programs = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store"
	settings = "/etc/ld.so.cache /etc/ld.so.preload /etc/localtime /etc/ssl/openssl.cnf /etc/pki/tls/openssl.cnf " +
		"/etc/crypto-policies /etc/gnutls/config"
	kernel = "/proc/cpuinfo /proc/filesystems /proc/meminfo /proc/stat /proc/sys/vm/overcommit_memory " +
		"/proc/sys/kernel/random /sys/devices/system /sys/kernel/mm /sys/module/vhost/parameters " +
		"/dev/random /dev/urandom"
	devices = "/dev/full /dev/null /dev/zero"
	// resolver contains the files that are needed to resolve names, and to verify servers by their certificates.
	resolver = "/etc/resolv.conf /etc/hosts /etc/host.conf /etc/nsswitch.conf /etc/gai.conf /etc/services " +
		"/run/systemd/resolve /run/resolvconf /run/NetworkManager/resolv.conf " +
		"/etc/ssl/certs /etc/ca-certificates /etc/pki/ca-trust /etc/pki/tls/certs"
)

// addProgram adds the files that every program needs, and the files of this program's installation.
func (r *rules) addProgram(p *plan.Process) {
	r.setReason("every program", nil)
	r.addRules(Read, strings.Fields(programs+" "+settings+" "+kernel)...)
	r.addRules(Write, strings.Fields(devices)...)
	// Root needs this capability because images may belong to other users.
	r.addRules(Capability, "dac_override")
	r.setReason("the program", nil)
	r.addRules(Read, p.Executable)
	if prefix, ok := strings.CutSuffix(path.Dir(p.Executable), "/bin"); ok && prefix != "" && prefix != "/usr" {
		r.addRules(Read, prefix+"/lib", prefix+"/lib64", prefix+"/libexec", prefix+"/share/qemu",
			prefix+"/share/seabios")
	}
	for _, a := range p.Access {
		r.setReason("access("+a.Path+", "+a.Mode+")", a.Origin)
		r.addRules(map[string]Kind{plan.AccessRead: Read, plan.AccessWrite: Write}[a.Mode], a.Path)
	}
}

// helperDomain returns the domain of a process next to QEMU. The meaning of arguments is only known for the TPM; for
// other helpers, it allows the paths in the arguments.
func helperDomain(p *plan.Process) Domain {
	if p.Exempt {
		return Domain{Process: p.Name, Exempt: true}
	}
	r := &rules{}
	r.addProgram(p)
	r.setReason("its working directory", nil)
	if p.Dir != "" {
		r.addRules(Write, p.Dir)
	}
	for i := range p.Args {
		o := &p.Args[i]
		r.setOptionReason(o)
		r.addRules(Write, pathsIn(o.Flag)...)
		r.addRules(Write, pathsIn(o.Value)...)
		for _, property := range o.Properties {
			r.addRules(Write, pathsIn(property.Value)...)
		}
	}
	if p.Ready != "" {
		r.setReason("it makes "+p.Ready+" when it is ready", nil)
		r.addRules(Write, path.Dir(p.Ready))
	}
	if p.Role != plan.RoleTPM {
		r.setReason("what it does is not known", nil)
		r.addRules(Listen, AnyPort)
		r.addRules(Connect, AnyPort)
		r.addRules(Read, strings.Fields(resolver+" /proc")...)
		r.addRules(Capability, "chown", "fowner", "fsetid", "net_bind_service", "setgid", "setuid")
	}
	return Domain{Process: p.Name, Rules: sortRules(r.list)}
}

// pathsIn returns the path in a text that is a path or ends with a path: "/a", "unix:/a".
func pathsIn(text string) []string {
	if i := strings.Index(text, "/"); i >= 0 && !strings.Contains(text, "://") && (i == 0 || text[i-1] == ':' ||
		text[i-1] == '=') {
		return []string{path.Clean(strings.SplitN(text[i:], ",", 2)[0])}
	}
	return nil
}
