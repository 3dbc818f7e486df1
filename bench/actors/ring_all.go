// go run ring_all.go ring|all THREADS MESSAGES: prints the seconds from the first message to the last.
// The same benchmarks as src/main.rs: a goroutine and a buffered channel for each actor. A channel has room for all
// messages under way, so that no send can block.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

func main() {
	ring := os.Args[1] == "ring"
	threads, _ := strconv.Atoi(os.Args[2])
	messages, _ := strconv.ParseUint(os.Args[3], 10, 64)
	runtime.GOMAXPROCS(threads)
	actors, tokens := 100, 1000
	if ring {
		actors, tokens = 1000, 100
	}
	peers := make([]chan uint64, actors)
	for i := range peers {
		peers[i] = make(chan uint64, tokens)
	}
	var left atomic.Int64
	left.Store(int64(tokens))
	done := make(chan struct{})
	for me := range peers {
		go func() {
			random := uint64(0x9e3779b97f4a7c15) ^ uint64(me+1)<<20
			for hops := range peers[me] {
				if hops == 0 {
					if left.Add(-1) == 0 {
						close(done)
					}
					continue
				}
				next := (me + 1) % actors
				if !ring {
					random ^= random << 13
					random ^= random >> 7
					random ^= random << 17
					next = int((random >> 32) * uint64(actors) >> 32)
				}
				peers[next] <- hops - 1
			}
		}()
	}
	started := time.Now()
	for token := 0; token < tokens; token++ {
		peers[token*actors/tokens] <- messages / uint64(tokens)
	}
	<-done
	fmt.Println(time.Since(started).Seconds())
}
