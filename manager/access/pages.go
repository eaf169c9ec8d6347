package access

import (
	"slices"
	"strings"
)

// Page is a part of the manager's web interface.
type Page string

// The pages with access restricted by role.
const (
	// PageVMs is the table of VMs, with the details of each VM.
	PageVMs Page = "vms"
	// PagePortal shows the VMs that a user may use, as cards.
	PagePortal Page = "portal"
	// PageSystem shows the log and the state of the manager.
	PageSystem Page = "system"
)

// PageOf maps the type name of a VM-Operator widget ("conlet") to the page with the same contents; "" if there is
// no such page. known reports whether VM-Operator has such a widget.
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

// ConletOf returns the widget that an entry of a widget list refers to; "*" means all widgets. never reports
// whether the entry's sign excludes the widget.
func ConletOf(entry string) (conlet string, never bool) {
	if conlet, never = strings.CutPrefix(entry, "--"); never {
		return conlet, true
	}
	return strings.TrimLeft(entry, "-!"), false
}

// MayUse reports whether a subject may use a page. Administrators may use every page, other users the pages of
// their roles. Without any lists, everyone may use the portal and the table of VMs, which show only permitted
// VMs.
func (p Policy) MayUse(s Subject, page Page) bool {
	if s.User == "" {
		return false
	}
	if p.isAdministrator(s) {
		return true
	}
	if p.Conlets == nil {
		return page != PageSystem
	}
	return slices.ContainsFunc(s.Roles, func(role string) bool { return listsPage(p.Conlets[role], page) })
}

// listsPage reports whether a list of widgets includes a page. The first matching entry decides.
func listsPage(entries []string, page Page) bool {
	for _, entry := range entries {
		conlet, never := ConletOf(entry)
		if found, _ := PageOf(conlet); conlet == "*" || found == page {
			return !never
		}
	}
	return false
}
