package accuracy

import "math/bits"

// python draws as CPython's `random.Random(seed)` does: harnesses draw examples and the order of choices by it, and a prompt is
// theirs only if the draws are. It is the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), with the seed as its key.
type python struct {
	state [624]uint32
	next  int
}

func newPython(seed uint64) *python {
	key := []uint32{uint32(seed), uint32(seed >> 32)}
	if key[1] == 0 {
		key = key[:1]
	}
	p := &python{next: len(python{}.state)}
	const n = len(p.state)
	p.state[0] = 19650218
	for i := 1; i < n; i++ {
		p.state[i] = 1812433253*(p.state[i-1]^p.state[i-1]>>30) + uint32(i)
	}
	i := 1
	for k := range n {
		j := k % len(key)
		p.state[i] = (p.state[i] ^ (p.state[i-1]^p.state[i-1]>>30)*1664525) + key[j] + uint32(j)
		if i++; i == n {
			p.state[0], i = p.state[n-1], 1
		}
	}
	for range n - 1 {
		p.state[i] = (p.state[i] ^ (p.state[i-1]^p.state[i-1]>>30)*1566083941) - uint32(i)
		if i++; i == n {
			p.state[0], i = p.state[n-1], 1
		}
	}
	p.state[0] = 1 << 31
	return p
}

func (p *python) word() uint32 {
	const n, m = len(p.state), 397
	if p.next == n {
		for i := range n {
			y := p.state[i]&(1<<31) | p.state[(i+1)%n]&(1<<31-1)
			p.state[i] = p.state[(i+m)%n] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		p.next = 0
	}
	y := p.state[p.next]
	p.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// below is a number from 0 to n-1.
func (p *python) below(n int) int {
	width := bits.Len(uint(n))
	for {
		if r := int(p.word() >> (32 - width)); r < n {
			return r
		}
	}
}

// sample is `random.sample(range(n), k)`.
func (p *python) sample(n, k int) []int {
	most := 21 // of a pool that it copies
	if k > 5 {
		for room := 1; ; room *= 4 {
			if room >= k*3 {
				most += room
				break
			}
		}
	}
	drawn := make([]int, 0, k)
	if n <= most {
		pool := make([]int, n)
		for i := range pool {
			pool[i] = i
		}
		for i := range k {
			j := p.below(n - i)
			drawn, pool[j] = append(drawn, pool[j]), pool[n-i-1]
		}
		return drawn
	}
	taken := map[int]bool{}
	for range k {
		j := p.below(n)
		for taken[j] {
			j = p.below(n)
		}
		taken[j], drawn = true, append(drawn, j)
	}
	return drawn
}

// shuffle is `random.shuffle(list(range(n)))`.
func (p *python) shuffle(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := p.below(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}
