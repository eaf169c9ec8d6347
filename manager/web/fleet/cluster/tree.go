package cluster

import (
	"maps"
	"slices"
)

// keysOf returns the sorted keys of two mappings, or the length of the longer of two lists. A missing value is allowed
// on one side. It returns nil and 0 for other types.
func keysOf(a, b any) (keys []string, items int) {
	one, isMap := a.(map[string]any)
	other, isToo := b.(map[string]any)
	if (isMap || a == nil) && (isToo || b == nil) && (isMap || isToo) {
		all := maps.Clone(one)
		if all == nil {
			all = map[string]any{}
		}
		maps.Copy(all, other)
		return slices.Sorted(maps.Keys(all)), 0
	}
	first, isList := a.([]any)
	second, isAlso := b.([]any)
	if (isList || a == nil) && (isAlso || b == nil) {
		return nil, max(len(first), len(second))
	}
	return nil, 0
}

// itemAt returns an item of a list; nil if it doesn't exist.
func itemAt(list any, i int) any {
	if all, ok := list.([]any); ok && i < len(all) {
		return all[i]
	}
	return nil
}
