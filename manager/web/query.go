package web

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"vmop/manager/web/fleet"
)

// pageSize is the number of VMs on a page of the list.
const pageSize = 50

// A query selects and sorts the VMs of a list.
type query struct {
	// Words that must all match: text, label=value, or state:running.
	Words string
	// Sort is the column, Down reverses the order.
	Sort string
	Down bool
	// Page counts from 1.
	Page int
}

// parseQuery parses a query from an address. Invalid values are replaced by their defaults.
func parseQuery(v url.Values) query {
	q := query{Words: v.Get("q"), Page: 1}
	q.Sort, q.Down = strings.CutPrefix(v.Get("sort"), "-")
	if _, known := orders[q.Sort]; !known {
		q.Sort, q.Down = "name", false
	}
	if n, err := strconv.Atoi(v.Get("page")); err == nil && n > 0 {
		q.Page = n
	}
	return q
}

// needsNamesOnly reports whether the query needs only the names of VMs.
func (q query) needsNamesOnly() bool { return strings.TrimSpace(q.Words) == "" && q.Sort == "name" }

// encodeQuery returns the query for an address, without default values.
func (q query) encodeQuery() string {
	v := url.Values{}
	if q.Words != "" {
		v.Set("q", q.Words)
	}
	sort := q.Sort
	if q.Down {
		sort = "-" + sort
	}
	if sort != "name" && sort != "" {
		v.Set("sort", sort)
	}
	if q.Page > 1 {
		v.Set("page", strconv.Itoa(q.Page))
	}
	return v.Encode()
}

// sortedBy returns the query for a click on a column's header.
func (q query) sortedBy(column string) query {
	q.Down = q.Sort == column && !q.Down
	q.Sort, q.Page = column, 1
	return q
}

// orders compare VMs by column.
var orders = map[string]func(a, b *fleet.VM) int{
	"name":    func(a, b *fleet.VM) int { return 0 }, // already sorted
	"state":   func(a, b *fleet.VM) int { return cmp.Compare(stateRank(a.State), stateRank(b.State)) },
	"since":   func(a, b *fleet.VM) int { return a.Since.Compare(b.Since) },
	"cpus":    func(a, b *fleet.VM) int { return cmp.Compare(a.CPUs.Now, b.CPUs.Now) },
	"ram":     func(a, b *fleet.VM) int { return cmp.Compare(a.RAM.Now, b.RAM.Now) },
	"node":    func(a, b *fleet.VM) int { return cmp.Compare(a.Node, b.Node) },
	"address": func(a, b *fleet.VM) int { return cmp.Compare(bestAddress(a), bestAddress(b)) },
	"type":    func(a, b *fleet.VM) int { return cmp.Compare(a.Type, b.Type) },
	"user":    func(a, b *fleet.VM) int { return cmp.Compare(usedBy(a), usedBy(b)) },
}

// bestAddress returns the best address of a VM; "" if it has none.
func bestAddress(vm *fleet.VM) string {
	if len(vm.Addresses) == 0 {
		return ""
	}
	return vm.Addresses[0].String()
}

// stateRank sorts states in the order of fleet.States.
func stateRank(s fleet.State) int { return slices.Index(fleet.States(), s) }

// typistOf returns the viewer with the keyboard of a VM's screen or console. kind is the kind of viewer; "" means any.
func typistOf(vm *fleet.VM, kind string) string {
	for _, v := range vm.Viewers {
		if (kind == "" || v.Kind == kind) && !v.Watches {
			return v.Who
		}
	}
	return ""
}

// usedBy returns the viewer with the keyboard, or the user who is logged in to the desktop.
func usedBy(vm *fleet.VM) string {
	return cmp.Or(typistOf(vm, ""), vm.User)
}

// chooseVMs returns the VMs of a query, and the VMs on its page. If there are fewer pages, it corrects the page number.
func (q *query) chooseVMs(vms []*fleet.VM) (all, page []*fleet.VM) {
	words := strings.Fields(strings.ToLower(q.Words))
	all = vms
	if len(words) > 0 {
		all = slices.DeleteFunc(slices.Clone(vms), func(vm *fleet.VM) bool { return !matchesWords(vm, words) })
	}
	if q.Sort != "name" || q.Down {
		if len(words) == 0 {
			all = slices.Clone(all)
		}
		order := orders[q.Sort]
		slices.SortStableFunc(all, func(a, b *fleet.VM) int {
			by := cmp.Or(order(a, b), strings.Compare(a.Name, b.Name))
			if q.Down {
				return -by
			}
			return by
		})
	}
	q.Page = min(q.Page, q.countPages(len(all)))
	from := (q.Page - 1) * pageSize
	return all, all[from:min(from+pageSize, len(all))]
}

// countPages returns the number of pages for n VMs.
func (query) countPages(n int) int { return max(1, (n+pageSize-1)/pageSize) }

// matchesWords reports whether a VM matches all words, which are in lower case.
func matchesWords(vm *fleet.VM, words []string) bool {
	for _, word := range words {
		if state, is := strings.CutPrefix(word, "state:"); is {
			if strings.ToLower(string(vm.State)) != state {
				return false
			}
			continue
		}
		if key, value, is := strings.Cut(word, "="); is {
			if !hasLabel(vm, key, value) {
				return false
			}
			continue
		}
		if !mentionsWord(vm, word) {
			return false
		}
	}
	return true
}

func hasLabel(vm *fleet.VM, key, value string) bool {
	for k, v := range vm.Labels {
		if strings.ToLower(k) == key && strings.ToLower(v) == value {
			return true
		}
	}
	return false
}

func mentionsWord(vm *fleet.VM, word string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), word) }
	return has(vm.Name) || has(string(vm.State)) || has(vm.Type) || has(vm.Node) || has(vm.OS) || has(usedBy(vm)) ||
		slices.ContainsFunc(vm.Addresses, func(a fleet.Address) bool { return has(a.String()) })
}
