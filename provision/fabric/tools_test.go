package fabric

import "testing"

// TestSpeeds reads what tools print: perftest 4.5's and libibverbs' own, and NCCL's log around
// our program's answer.
func TestSpeeds(t *testing.T) {
	const write = `
 WARNING: BW peak won't be measured in this run.
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 remote address: LID 0000 QPN 0x00a2 PSN 0x9b1a12 RKey 0x1fefef VAddr 0x007f1d0c7d9000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      2242500          0.00               391.92 		   0.747528
---------------------------------------------------------------------------------------
`
	if got, ok := writeGbits(write); !ok || got != 391.92 {
		t.Errorf("ib_write_bw: %g, %v", got, ok)
	}
	if got, ok := writeGbits("Couldn't connect to 10.0.0.2:18515\n #bytes #iterations\n"); ok {
		t.Errorf("ib_write_bw that has failed: %g", got)
	}
	const pong = "  local address:  LID 0x0000, QPN 0x0000a1, PSN 0x5b8f51, GID ::ffff:10.0.0.1\n" +
		"8192000 bytes in 0.01 seconds = 9362.29 Mbit/sec\n1000 iters in 0.01 seconds = 7.00 usec/iter\n"
	if got, ok := pingPongMicros(pong); !ok || got != 7 {
		t.Errorf("ibv_rc_pingpong: %g, %v", got, ok)
	}
	if got, ok := pingPongMicros("Failed to modify QP to RTR\n"); ok {
		t.Errorf("ibv_rc_pingpong that has failed: %g", got)
	}
	const said = "n1:99:99 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eno1:10.0.0.1<0>\n" +
		"n1:99:99 [0] NCCL INFO Using network IB\n\n{\"seconds\": 0.0412}\nn1:99:99 [0] NCCL INFO comm 0x55 - Abort COMPLETE\n"
	if seconds, by, ok := reduced(said); !ok || seconds != 0.0412 || by != "IB" {
		t.Errorf("all-reduce: %g by %s, %v", seconds, by, ok)
	}
	if _, _, ok := reduced("{\"seconds\": 0}\nTraceback (most recent call last):\n"); ok {
		t.Error("an all-reduce that has failed has a result")
	}
}
