package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

//go:embed seconds.txt
var secondsList string

// unit is a test package, or one test of a divided package.
type unit struct {
	pkg, test string
	seconds   float64 // estimated time; defaultSeconds for a new package
}

const defaultSeconds = 3

// unitCost returns the machine time of a unit: two packages run at the same time, but a test of a divided package runs
// alone.
func (u unit) unitCost() float64 {
	if u.test != "" {
		return 2 * u.seconds
	}
	return u.seconds
}

// batchesOf returns the arguments of each go test for args. Without -shard it returns args. Otherwise it returns a
// batch with the packages of the shard, and a batch for each test of a divided package.
func batchesOf(ctx context.Context, args []string) ([][]string, error) {
	var shard string
	var flags, packages []string
	for _, arg := range args {
		if part, found := strings.CutPrefix(arg, "-shard="); found {
			shard = part
		} else if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		} else {
			packages = append(packages, arg)
		}
	}
	if shard == "" {
		return [][]string{args}, nil
	}
	i, n, err := readShard(shard)
	if err != nil {
		return nil, err
	}
	list, err := exec.CommandContext(ctx, "go", append([]string{"list"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of shard %s: %w", shard, err)
	}
	known, err := readSeconds(secondsList)
	if err != nil {
		return nil, err
	}
	return batchArguments(dealUnits(unitsOf(strings.Fields(string(list)), known), n)[i-1], flags), nil
}

// readShard parses "1/4".
func readShard(text string) (i, n int, err error) {
	before, after, _ := strings.Cut(text, "/")
	i, errI := strconv.Atoi(before)
	n, errN := strconv.Atoi(after)
	if errI != nil || errN != nil || i < 1 || n < i {
		return 0, 0, fmt.Errorf("cannot run shard %q: must be I/N with I from 1 to N, such as 1/4", text)
	}
	return i, n, nil
}

// readSeconds reads lines "SECONDS PACKAGE [TEST]". Lines that begin with # are comments.
func readSeconds(list string) (units []unit, err error) {
	for lines := bufio.NewScanner(strings.NewReader(list)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		u := unit{}
		if len(words) == 2 || len(words) == 3 {
			u.pkg = words[1]
			u.seconds, err = strconv.ParseFloat(words[0], 64)
		}
		if err != nil || u.pkg == "" {
			return nil, fmt.Errorf("seconds.txt: %q is not SECONDS PACKAGE [TEST]", lines.Text())
		}
		if len(words) == 3 {
			u.test = words[2]
		}
		units = append(units, u)
	}
	return units, nil
}

// unitsOf returns the units of packages, with their known times.
func unitsOf(packages []string, known []unit) (units []unit) {
	for _, pkg := range packages {
		before := len(units)
		for _, u := range known {
			if u.pkg == pkg {
				units = append(units, u)
			}
		}
		if len(units) == before {
			units = append(units, unit{pkg: pkg, seconds: defaultSeconds})
		}
	}
	return units
}

// dealUnits distributes units over n shards with about equal times: the most expensive first, each to the shard with
// the lowest total.
func dealUnits(units []unit, n int) [][]unit {
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(b.unitCost(), a.unitCost()) })
	shards, sums := make([][]unit, n), make([]float64, n)
	for _, u := range units {
		least := slices.Index(sums, slices.Min(sums))
		shards[least] = append(shards[least], u)
		sums[least] += u.unitCost()
	}
	return shards
}

// batchArguments returns the arguments of each go test that a shard needs.
func batchArguments(units []unit, flags []string) (batches [][]string) {
	together := slices.Clone(flags)
	for _, u := range units {
		if u.test == "" {
			together = append(together, u.pkg)
		} else {
			batches = append(batches, append(slices.Clone(flags), "-run=^"+u.test+"$", u.pkg))
		}
	}
	if len(together) > len(flags) {
		batches = append([][]string{together}, batches...)
	}
	return batches
}
