package access

import (
	"slices"
	"strings"
)

// A Page is a part of what the manager shows.
type Page string

// The pages whose use depends on roles.
const (
	// PageVMs is the table of VMs, with all about one of them.
	PageVMs Page = "vms"
	// PagePortal has the VMs that a user may use, as cards.
	PagePortal Page = "portal"
	// PageSystem has the log and the state of the manager.
	PageSystem Page = "system"
)

// PageOf returns the page that has what a widget ("conlet") of VM-Operator has, by the name of its
// type; "" if none does. known reports whether VM-Operator has such a widget.
func PageOf(conlet string) (page Page, known bool) {
	switch conlet[strings.LastIndex(conlet, ".")+1:] {
	case "VmMgmt", "VmConlet":
		return PageVMs, true
	case "VmAccess", "VmViewer":
		return PagePortal, true
	case "SysInfoConlet", "LogViewerConlet", "SystemInfoConlet":
		return PageSystem, true
	case "LoginConlet", "LocalLoginConlet", "MarkdownDisplayConlet":
		return "", true
	}
	return "", false
}

// ConletOf returns the widget that an entry of a list of them is about: "*" for all. A sign
// before it limits what may be done with it.
func ConletOf(entry string) (conlet string, never bool) {
	if conlet, never = strings.CutPrefix(entry, "--"); never {
		return conlet, true
	}
	return strings.TrimLeft(entry, "-!"), false
}

// MayUse reports whether a subject may use a page: an administrator any, others those of their
// roles. Without lists everyone may use the portal and the table of VMs, which show nothing that
// is not permitted.
func (p Policy) MayUse(s Subject, page Page) bool {
	if s.User == "" {
		return false
	}
	if p.administers(s) {
		return true
	}
	if p.Conlets == nil {
		return page != PageSystem
	}
	return slices.ContainsFunc(s.Roles, func(role string) bool { return lists(p.Conlets[role], page) })
}

// lists reports whether a list of widgets includes a page: the first entry about it counts.
func lists(entries []string, page Page) bool {
	for _, entry := range entries {
		conlet, never := ConletOf(entry)
		if found, _ := PageOf(conlet); conlet == "*" || found == page {
			return !never
		}
	}
	return false
}
