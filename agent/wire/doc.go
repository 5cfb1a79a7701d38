// Package wire is the bytes a Unitree Go1 speaks over UDP, and nothing else: four messages and the hand remote's 40
// bytes, encoded and decoded as the maker's SDK (unitree_legged_sdk, branch go1, 4539a6c) sends and reads them.
//
//	              LowCmd 614 B (motors), HighCmd 129 B (sport mode)
//	agent/link  ─────────────────────────────────────────────────────►  Go1, or sim/virtual
//	            ◄─────────────────────────────────────────────────────
//	              LowState 807 B, HighState 1087 B
//
// agent/link and sim/virtual call it, one at each end; agent/safety and agent/control read its structs. It does no
// I/O, holds no state, and allocates nothing, neither for good frames nor for refused ones.
//
// Encoders append to the caller's buffer. An encoder that refuses leaves the buffer as it was. It refuses what the
// maker's code silently wraps (a torque of 128 N.m leaves the SDK as -128 N.m) and every non-finite number in a command.
// It copies the header as it stands, so Init first.
//
// Decoders check, in this order, length, head, CRC, and touch the output only after all three hold; then they write every
// field, so nothing of an earlier frame stays. Values are not judged: a NaN, or an angle out of reach, in a frame whose
// CRC holds passes through, because that is agent/safety's business and hiding it here would hide a fault.
//
// # Common layout
//
// Little-endian, packed, floats are IEEE 754 binary32. Joint i of a motor array is leg*3 + joint: legs FR FL RR RL, joints
// hip thigh calf; 12..19 travel but drive nothing on a Go1.
//
//	 0  head            FE EF
//	 2  level flag      u8, FF low level, EE sport mode
//	 3  frame reserve   u8
//	 4  SN              u32 x 2
//	12  version         u32 x 2
//	20  band width      u16
//	22  body
//	-8  reserve         u32
//	-4  CRC             u32
//
// # LowCmd, 614 bytes, agent to robot
//
//	 22 + 27i  motor i of 20    mode u8 @0, q f32 rad @1, dq f32 rad/s @5, tau i16 N.m x 256 @9, Kp i16 x 32 @11,
//	                            Kd i16 x 16 @13, reserve u32 x 3 @15
//	562        battery off      u8 (A5 turns the robot's battery off; nothing of ours sends it)
//	563        battery reserve  u8 x 3
//	566        remote           40 bytes
//	606        reserve          u32
//	610        CRC              u32
//
// The scaled fields are the float32 product truncated toward zero: tau -0.65 goes out as -166, not -167.
// The bytes cannot tell whether Kp and Kd are signed; the maker's arm64 build converts them as signed, and so does the
// decoder. The encoder stays where both readings agree: |tau| < 128, 0 <= Kp < 1024, 0 <= Kd < 2048.
//
// # LowState, 807 bytes, robot to agent
//
//	 22        IMU 53 bytes     quaternion w x y z f32 x 4 @0, gyroscope rad/s f32 x 3 @16, accelerometer m/s2
//	                            f32 x 3 @28, roll pitch yaw rad f32 x 3 @40, temperature C i8 @52
//	 75 + 32i  motor i of 20    mode u8 @0, q f32 @1, dq f32 @5, ddq i16 @9, tauEst i16 x 256 @11, q raw f32 @13,
//	                            dq raw f32 @17, ddq raw i16 @21, temperature C i8 @23, reserve u32 x 2 @24
//	715        battery 24       version u8 x 2 @0, status u8 @2, charge % u8 @3, current mA i32 @4, cycles u16 @8,
//	                            battery NTC C i8 x 2 @10, board NTC C i8 x 2 @12, cells u8 x 10 of 32 mV @14
//	739        foot force       i16 x 4, legs FR FL RR RL
//	747        foot force est.  i16 x 4
//	755        tick             u32 ms
//	759        remote           40 bytes
//	799        reserve          u32
//	803        CRC              u32
//
// # HighCmd, 129 bytes, and HighState, 1087 bytes
//
//	 22  mode gait speed u8 x 3      22  IMU 53 bytes, as in LowState
//	 25  foot raise height m         75  motor i of 20, 38 bytes: as in LowState, but ddq, tauEst and
//	 29  body height m                   ddq raw are f32 and nothing is scaled
//	 33  position m x 2             835  battery 34 bytes: as in LowState, but cells u16 x 10 in mV
//	 41  roll pitch yaw rad         869  foot force i16 x 4, 877 its estimate i16 x 4
//	 53  velocity m/s x 2           885  mode u8, 886 progress f32, 890 gait u8
//	 61  yaw speed rad/s            891  foot raise height m, 895 position m x 3, 907 body height m
//	 65  battery off, 3 reserve     911  velocity m/s x 3, 923 yaw speed rad/s
//	 69  LED r g b u8 x 4           927  obstacle ranges m x 4
//	 81  remote 40 bytes            943  foot position to body m 4 x 3, 991 its speed m/s 4 x 3
//	121  reserve u32               1039  remote 40 bytes, 1079 reserve u32
//	125  CRC u32                   1083  CRC u32
//
// # CRC
//
// See CRC32. It covers whole words from byte 0, one word less than fit into the frame, so up to three bytes of reserve lie
// outside it. It travels plain, or obscured by EncryptCRC. A state with level flag EE carries the second form and any
// other the first (FormFor); which form a robot wants in a command no public source shows, so the decoders of
// commands take both and say which it was.
package wire
