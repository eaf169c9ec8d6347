package main

import (
	"fmt"
	"slices"
)

// candidate is one of the ways that are compared.
type candidate struct {
	name string
	// peer is the candidate to compare with, or "".
	peer string
	// once runs the candidate once and returns the measured numbers, by quantity. Preparation and cleanup are not
	// measured.
	once func() (map[string]float64, error)
	// skipped is the reason why the candidate can't be measured here, or "".
	skipped string
}

// samples contains the numbers of all rounds: by candidate, then by quantity.
type samples map[string]map[string][]float64

// interleaveCandidates measures all candidates in turns.
func (b *bench) interleaveCandidates(candidates []candidate) (samples, error) {
	all := samples{}
	for round := range b.rounds + 1 {
		for _, c := range roundOrder(candidates, round) {
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
			if c.skipped != "" {
				continue
			}
			numbers, err := c.once()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				all.addSamples(c.name, numbers)
			}
		}
	}
	return all, nil
}

// roundOrder returns the order of a round. Every second round is reversed.
func roundOrder(candidates []candidate, round int) []candidate {
	list := slices.Clone(candidates)
	if round%2 == 1 {
		slices.Reverse(list)
	}
	return list
}

func (s samples) addSamples(name string, numbers map[string]float64) {
	if s[name] == nil {
		s[name] = map[string][]float64{}
	}
	for quantity, n := range numbers {
		s[name][quantity] = append(s[name][quantity], n)
	}
}

// medianOf returns the median of at least one number.
func medianOf(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// roundRatios returns the ratios of two candidates, round by round.
func roundRatios(of, to []float64) []float64 {
	list := make([]float64, min(len(of), len(to)))
	for i := range list {
		list[i] = of[i] / to[i]
	}
	return list
}

// compareCandidates returns a result for each candidate that has samples of the quantity or was skipped, with the ratio
// to its peer.
func (s samples) compareCandidates(candidates []candidate, quantity, unit string) []result {
	var list []result
	for _, c := range candidates {
		of, to := s[c.name][quantity], s[c.peer][quantity]
		r := result{Name: c.name, Unit: unit, Samples: of, Skipped: c.skipped}
		if len(of) > 0 && len(to) > 0 {
			r.Ratio, r.RatioTo = medianOf(roundRatios(of, to)), c.peer
		}
		if len(of) > 0 || c.skipped != "" {
			list = append(list, r)
		}
	}
	return list
}
