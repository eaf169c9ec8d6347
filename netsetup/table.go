package netsetup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/google/nftables"
	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// tableOwned is NFT_TABLE_F_OWNER of linux/netfilter/nf_tables.h, available since Linux 5.12. Only the socket that
// created the table may change it, and the kernel removes the table when that socket is closed.
const tableOwned = 2

// table holds the rules of one network while it is open, here or in a process that has inherited its handle. No
// other process can replace it in that time, so it also locks the network's name.
//
// See docs/decisions/0021-inherited-rules.md.
type table struct {
	conn   *nftables.Conn
	socket *mdlayher.Conn    // conn's socket, the table's owner
	handle *os.File          // duplicate descriptor of the socket, for others to inherit
	tables []*nftables.Table // one per family, all with the same name
}

// openTable creates an empty table for a tap in each of the families. It replaces the table of an earlier run that
// could not own its table. flags is tableOwned; if the kernel doesn't know that flag, the table has no flags.
//
// This package speaks the kernel's own protocol instead of running the program nft, as containernetworking's
// packages do. That saves a package in the image and the 25 ms that nft needs to start. In addition, only a socket
// that stays open can own a table.
func openTable(doing, tap string, flags uint32, families ...nftables.TableFamily) (*table, error) {
	t := &table{}
	keep := func(socket *mdlayher.Conn) error {
		t.socket = socket
		return nil
	}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(keep))
	if err != nil {
		return nil, rulesRefused(doing, err)
	}
	t.conn = conn
	for _, family := range families {
		made := &nftables.Table{Name: "vmop-" + tap, Family: family}
		if err := t.replaceTable(doing, tap, made, flags); err != nil {
			return nil, errors.Join(err, t.Close())
		}
		t.tables = append(t.tables, made)
	}
	if t.handle, err = duplicateSocket(t.socket, "vmop-"+tap); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: duplicate the rules' owner: %w", doing, err), t.Close())
	}
	return t, nil
}

// duplicateSocket returns a second descriptor for a socket.
func duplicateSocket(socket *mdlayher.Conn, name string) (*os.File, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var handle *os.File
	controlErr := raw.Control(func(fd uintptr) {
		var copied int
		if copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			handle = os.NewFile(uintptr(copied), name)
		}
	})
	return handle, errors.Join(controlErr, err)
}

func (t *table) replaceTable(doing, tap string, made *nftables.Table, flags uint32) error {
	tables, err := t.conn.ListTablesOfFamily(made.Family)
	if err != nil {
		return rulesRefused(doing, err)
	}
	for _, old := range tables {
		if old.Name != made.Name {
			continue
		}
		t.conn.DelTable(made)
		err := t.conn.Flush()
		if errors.Is(err, unix.EPERM) {
			return &Error{
				Doing: doing, Fault: NameTaken, Err: err,
				Detail: fmt.Sprintf("another process holds the rules of network %s", tap),
				Remedy: "see whether this machine is running already",
			}
		}
		if err != nil {
			return fmt.Errorf("%s: remove the rules of an earlier run: %w", doing, err)
		}
	}
	err = t.createTable(made, flags)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		t.conn.AddTable(made)
		err = t.conn.Flush()
	}
	if err != nil {
		return rulesRefused(doing, err)
	}
	return nil
}

// createTable sends the message of nftables.Conn.AddTable itself, because AddTable always sends zero flags.
func (t *table) createTable(made *nftables.Table, flags uint32) error {
	attributes, err := mdlayher.MarshalAttributes([]mdlayher.Attribute{
		{Type: unix.NFTA_TABLE_NAME, Data: []byte(made.Name + "\x00")},
		{Type: unix.NFTA_TABLE_FLAGS, Data: binary.BigEndian.AppendUint32(nil, flags)},
	})
	if err != nil {
		return err
	}
	subsystem := []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES}
	create := mdlayher.Header{
		Type:  unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWTABLE,
		Flags: mdlayher.Request | mdlayher.Acknowledge | mdlayher.Create | mdlayher.Excl,
	}
	_, err = t.socket.SendMessages([]mdlayher.Message{
		{Header: mdlayher.Header{Type: unix.NFNL_MSG_BATCH_BEGIN, Flags: mdlayher.Request}, Data: subsystem},
		{Header: create, Data: append([]byte{byte(made.Family), unix.NFNETLINK_V0, 0, 0}, attributes...)},
		{Header: mdlayher.Header{Type: unix.NFNL_MSG_BATCH_END, Flags: mdlayher.Request}, Data: subsystem},
	})
	if err != nil {
		return err
	}
	_, err = t.socket.Receive()
	return err
}

// addChains adds all the chains, or no chain, to the table of a family. device is the interface for chains that hook
// into one interface.
func (t *table) addChains(doing string, family nftables.TableFamily, device string, chains ...chain) error {
	at := t.tables[slices.IndexFunc(t.tables, func(made *nftables.Table) bool { return made.Family == family })]
	accept := nftables.ChainPolicyAccept
	for _, c := range chains {
		added := t.conn.AddChain(&nftables.Chain{
			Name: c.name, Table: at, Type: c.kind, Hooknum: c.hook, Priority: c.priority, Policy: &accept,
			Device: device,
		})
		for _, r := range c.rules {
			t.conn.AddRule(&nftables.Rule{Table: at, Chain: added, Exprs: r})
		}
	}
	if err := t.conn.Flush(); err != nil {
		return rulesRefused(doing, err)
	}
	return nil
}

// findBarriers returns the names of other programs' chains that drop forwarded packets unless one of their rules
// accepts them, for example "filter FORWARD" where Docker is installed.
func (t *table) findBarriers() ([]string, error) {
	chains, err := t.conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("list the chains of nftables: %w", err)
	}
	var found []string
	for _, c := range chains {
		ipv4 := c.Table.Family == nftables.TableFamilyIPv4 || c.Table.Family == nftables.TableFamilyINet
		forward := c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward
		if ipv4 && forward && c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
			found = append(found, fmt.Sprintf("%s %s", c.Table.Name, c.Name))
		}
	}
	return found, nil
}

// Close removes the tables. It deletes them before it closes the socket, for kernels that lack table owners.
func (t *table) Close() error {
	var errs []error
	for _, made := range t.tables {
		t.conn.DelTable(made)
		if err := t.conn.Flush(); err != nil && !errors.Is(err, unix.ENOENT) { // another program has flushed the rules
			errs = append(errs, fmt.Errorf("remove table %s of nftables: %w", made.Name, err))
		}
	}
	if t.handle != nil {
		errs = append(errs, t.handle.Close())
	}
	return errors.Join(append(errs, t.conn.CloseLasting())...)
}

func rulesRefused(doing string, err error) error {
	for _, unknown := range []error{unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP, unix.ENOENT} {
		if errors.Is(err, unknown) {
			return &Error{
				Doing: doing, Fault: NoNftables, Err: err,
				Detail: "the kernel cannot do what the network's rules need",
				Remedy: "load the kernel modules nf_tables, nft_chain_nat, nft_masq, nft_ct and nft_fib_inet",
			}
		}
	}
	return noAdmin(doing+": set the rules of nftables", err)
}
