package vmspec

import (
	"fmt"
	"net/netip"
	"strings"
)

func (c *checker) checkDrives() {
	if len(c.spec.Drives) > mostDevices {
		c.addFault("vm.drives", "has %d drives", len(c.spec.Drives)).withHint("the maximum is %d", mostDevices)
		return
	}
	order, serials := map[int]string{}, map[string]string{}
	for i, d := range c.spec.Drives {
		path := fmt.Sprintf("vm.drives[%d]", i)
		if d.NBD == nil && i > 0 && c.spec.Drives[i-1].NBD != nil {
			c.addFault(path, "comes after a drive with nbd").withHint(
				"drives with nbd come last: the VM is started without them").withPaths(fmt.Sprintf("vm.drives[%d].nbd",
				i-1))
		}
		c.checkSerial(path+".serial", d.Serial, serials)
		if b := d.Bootindex; b != nil {
			c.checkBootIndex(path+".bootindex", *b, order)
		}
		c.oneOf(path+".format", d.Format)
		c.checkTuning(path, d)
		if !c.oneOf(path+".type", string(d.Type)) {
			continue
		}
		if d.Type == DriveIDECD {
			c.compactDisc(path, d)
		} else {
			c.checkDisk(path, d)
		}
	}
}

func (c *checker) checkBootIndex(path string, index int, seen map[int]string) {
	if index < 0 {
		c.addFault(path, "can't be %d", index).withHint("0 or more, lowest first")
		return
	}
	if first, taken := seen[index]; taken {
		c.addFault(path, "%d is taken", index).withHint("by %s", first).withPaths(first)
		return
	}
	seen[index] = path
}

func (c *checker) compactDisc(path string, d Drive) {
	c.oneOf(path+".bus", d.Bus)
	for _, source := range []struct{ key, value string }{{"device", d.Device}, {"resource", d.Resource}} {
		if source.value != "" {
			c.addFault(path+"."+source.key,
				"is not for a CD drive").withHint("its medium is given by file").withPaths(path + ".type")
		}
	}
	if d.NBD != nil {
		if d.File != "" {
			c.addFault(path+".nbd", "file and nbd are given").withHint("give one of them").withPaths(path + ".file")
		}
		c.checkNBD(path, d)
	}
	if d.Size != 0 {
		c.addFault(path+".size", "is not for a CD drive").withHint("an image is created only for a disk").withPaths(
			path + ".type")
	}
	if d.Source != "" {
		c.addFault(path+".source",
			"is not for a CD drive").withHint("its medium is given by file, which may be a URL").withPaths(
			path + ".type")
	}
}

func (c *checker) checkDisk(path string, d Drive) {
	if d.Bus != "" {
		c.addFault(path+".bus", "is for CD drives only").withHint("a disk is attached by virtio").withPaths(path +
			".type")
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
		c.checkNBD(path, d)
	}
	switch len(given) {
	case 1:
	case 0:
		c.addFault(path, "has no source of data").withHint("give file, device, resource or nbd").
			withPaths(path+".type", path+".file", path+".device", path+".resource", path+".nbd")
	default:
		c.addFault(path+"."+given[1], "%s are given",
			strings.Join(given, " and ")).withHint("give one of them").withPaths(path +
			"." + given[0])
	}
	if d.Size != 0 {
		c.checkImage(path, d)
	}
	c.checkSource(path, d)
}

// checkNBD checks a disk on an NBD server.
func (c *checker) checkNBD(path string, d Drive) {
	switch {
	case d.NBD.Host == "":
		c.addFault(path+".nbd.host", "missing").withHint("the server's name or address")
	case strings.ContainsAny(d.NBD.Host, "/ \t") || strings.Contains(d.NBD.Host, "://"):
		c.addFault(path+".nbd.host", "%s is neither a name nor an address", quoteClipped(d.NBD.Host)).withHint(
			"such as disks.example.org; port, export and tls are separate keys")
	}
	c.portNumber(path+".nbd.port", d.NBD.Port, 1)
	if len(d.NBD.Export) > longestExport {
		c.addFault(path+".nbd.export", "has %d bytes", len(d.NBD.Export)).withHint("the maximum is %d", longestExport)
	}
	if d.Format != "raw" {
		c.addFault(path+".format", "a disk of an NBD server is raw").withHint("leave format out").withPaths(path +
			".nbd")
	}
	if d.Bootindex != nil {
		c.addFault(path+".bootindex", "the VM can't boot from a disk of an NBD server, which it gets when it runs").withPaths(
			path + ".nbd")
	}
}

// checkImage checks the size of an image that the runner creates.
func (c *checker) checkImage(path string, d Drive) {
	c.wholeMiB(path+".size", d.Size)
	switch {
	case d.File == "":
		c.addFault(path+".size", "is for a disk that is a file").withHint("give file").withPaths(
			path+".device", path+".resource", path+".nbd")
	case d.Format != "raw":
		c.addFault(path+".size", "is for a raw image").withHint("qemu-img makes others").withPaths(path + ".format")
	case d.ReadOnly:
		c.addFault(path+".size", "a read-only image can't be created").withHint("leave out size or readOnly").withPaths(
			path + ".readOnly")
	}
}

func (c *checker) checkDisplay() {
	d := c.spec.Display
	if d == nil {
		return
	}
	if d.Outputs < 1 || d.Outputs > mostOutputs {
		c.addFault("vm.display.outputs", "can't be %d", d.Outputs).withHint("1 to %d", mostOutputs)
	}
	if s := d.Spice; s != nil {
		c.portNumber("vm.display.spice.port", s.Port, 1)
		c.checkAddress("vm.display.spice.address", s.Address)
		if s.StreamingVideo != "" {
			c.oneOf("vm.display.spice.streamingVideo", s.StreamingVideo)
		}
		if n := s.USBRedirects; n != nil && (*n < 0 || *n > mostUSB) {
			c.addFault("vm.display.spice.usbRedirects", "can't be %d", *n).withHint("0 to %d", mostUSB)
		}
	}
	if v := d.VNC; v != nil {
		if v.Port != 0 {
			c.portNumber("vm.display.vnc.port", v.Port, firstVNC)
		} else if v.Address != "" {
			c.addFault("vm.display.vnc.address",
				"has no effect without a port").withHint("give port as well").withPaths("vm.display.vnc.port")
		}
		c.checkAddress("vm.display.vnc.address", v.Address)
	}
}

// checkAddress requires an address to listen on: an IP address, a host name, or an empty text.
func (c *checker) checkAddress(path, text string) {
	if text == "" || isQEMUName(text) {
		return
	}
	if _, err := netip.ParseAddr(text); err != nil {
		c.addFault(path, "%s is not an address to listen on",
			quoteClipped(text)).withHint("such as 127.0.0.1, ::1 or localhost")
	}
}
