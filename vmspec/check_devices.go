package vmspec

import (
	"fmt"
	"net/netip"
	"strings"
)

func (c *checker) drives() {
	if len(c.spec.Drives) > mostDevices {
		c.add("vm.drives", "has %d drives", len(c.spec.Drives)).hint("the most is %d", mostDevices)
		return
	}
	order, serials := map[int]string{}, map[string]string{}
	for i, d := range c.spec.Drives {
		path := fmt.Sprintf("vm.drives[%d]", i)
		if d.NBD == nil && i > 0 && c.spec.Drives[i-1].NBD != nil {
			c.add(path, "comes after a drive with nbd").hint(
				"drives with nbd come last: the VM is started without them").also(fmt.Sprintf("vm.drives[%d].nbd", i-1))
		}
		c.serial(path+".serial", d.Serial, serials)
		if b := d.Bootindex; b != nil {
			c.bootindex(path+".bootindex", *b, order)
		}
		c.oneOf(path+".format", d.Format)
		if !c.oneOf(path+".type", string(d.Type)) {
			continue
		}
		if d.Type == DriveIDECD {
			c.compactDisc(path, d)
		} else {
			c.disk(path, d)
		}
	}
}

func (c *checker) bootindex(path string, index int, seen map[int]string) {
	if index < 0 {
		c.add(path, "can't be %d", index).hint("0 or more, lowest first")
		return
	}
	if first, taken := seen[index]; taken {
		c.add(path, "%d is taken", index).hint("by %s", first).also(first)
		return
	}
	seen[index] = path
}

func (c *checker) compactDisc(path string, d Drive) {
	c.oneOf(path+".bus", d.Bus)
	for _, source := range []struct{ key, value string }{{"device", d.Device}, {"resource", d.Resource}} {
		if source.value != "" {
			c.add(path+"."+source.key, "is not for a CD drive").hint("its medium is given by file").also(path + ".type")
		}
	}
	if d.NBD != nil {
		if d.File != "" {
			c.add(path+".nbd", "file and nbd are given").hint("give one of them").also(path + ".file")
		}
		c.nbd(path, d)
	}
	if d.Size != 0 {
		c.add(path+".size", "is not for a CD drive").hint("an image is made for a disk only").also(path + ".type")
	}
	if d.Source != "" {
		c.add(path+".source", "is not for a CD drive").hint("its medium is given by file, which may be a URL").also(
			path + ".type")
	}
}

func (c *checker) disk(path string, d Drive) {
	if d.Bus != "" {
		c.add(path+".bus", "is for CD drives only").hint("a disk is attached by virtio").also(path + ".type")
	}
	var given []string
	for _, source := range []struct{ key, value string }{
		{"file", d.File},
		{"device", d.Device},
		{"resource", d.Resource},
	} {
		if source.value != "" {
			given = append(given, source.key)
		}
	}
	if d.NBD != nil {
		given = append(given, "nbd")
		c.nbd(path, d)
	}
	switch len(given) {
	case 1:
	case 0:
		c.add(path, "has nothing to read from").hint("give file, device, resource or nbd").
			also(path+".type", path+".file", path+".device", path+".resource", path+".nbd")
	default:
		c.add(path+"."+given[1], "%s are given", strings.Join(given, " and ")).hint("give one of them").also(path +
			"." + given[0])
	}
	if d.Size != 0 {
		c.image(path, d)
	}
	c.source(path, d)
}

// nbd judges a disk that a server has.
func (c *checker) nbd(path string, d Drive) {
	switch {
	case d.NBD.Host == "":
		c.add(path+".nbd.host", "missing").hint("the server's name or address")
	case strings.ContainsAny(d.NBD.Host, "/ \t") || strings.Contains(d.NBD.Host, "://"):
		c.add(path+".nbd.host", "%s is neither a name nor an address", quote(d.NBD.Host)).hint(
			"such as disks.example.org; port, export and tls are keys of their own")
	}
	c.portNumber(path+".nbd.port", d.NBD.Port, 1)
	if len(d.NBD.Export) > longestExport {
		c.add(path+".nbd.export", "has %d bytes", len(d.NBD.Export)).hint("the most is %d", longestExport)
	}
	if d.Format != "raw" {
		c.add(path+".format", "a disk of an NBD server is raw").hint("leave format out").also(path + ".nbd")
	}
	if d.Bootindex != nil {
		c.add(path+".bootindex", "the VM can't boot from a disk of an NBD server, which it gets when it runs").also(
			path + ".nbd")
	}
}

// image judges the size of an image that the runner makes.
func (c *checker) image(path string, d Drive) {
	c.wholeMiB(path+".size", d.Size)
	switch {
	case d.File == "":
		c.add(path+".size", "is for a disk that is a file").hint("give file").also(
			path+".device", path+".resource", path+".nbd")
	case d.Format != "raw":
		c.add(path+".size", "is for a raw image").hint("qemu-img makes others").also(path + ".format")
	case d.ReadOnly:
		c.add(path+".size", "a read-only image can't be created").hint("leave out size or readOnly").also(
			path + ".readOnly")
	}
}

func (c *checker) display() {
	d := c.spec.Display
	if d == nil {
		return
	}
	if d.Outputs < 1 || d.Outputs > mostOutputs {
		c.add("vm.display.outputs", "can't be %d", d.Outputs).hint("1 to %d", mostOutputs)
	}
	if s := d.Spice; s != nil {
		c.portNumber("vm.display.spice.port", s.Port, 1)
		c.address("vm.display.spice.address", s.Address)
		if s.StreamingVideo != "" {
			c.oneOf("vm.display.spice.streamingVideo", s.StreamingVideo)
		}
		if n := s.USBRedirects; n != nil && (*n < 0 || *n > mostUSB) {
			c.add("vm.display.spice.usbRedirects", "can't be %d", *n).hint("0 to %d", mostUSB)
		}
	}
	if v := d.VNC; v != nil {
		if v.Port != 0 {
			c.portNumber("vm.display.vnc.port", v.Port, firstVNC)
		} else if v.Address != "" {
			c.add("vm.display.vnc.address",
				"means nothing without a port").hint("give port as well").also("vm.display.vnc.port")
		}
		c.address("vm.display.vnc.address", v.Address)
	}
}

// address wants an address to listen on: an IP address, a host name or nothing.
func (c *checker) address(path, text string) {
	if text == "" || isWord(text) {
		return
	}
	if _, err := netip.ParseAddr(text); err != nil {
		c.add(path, "%s is not an address to listen on", quote(text)).hint("such as 127.0.0.1, ::1 or localhost")
	}
}
