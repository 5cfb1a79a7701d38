// The C core of package mujoco: Go1 motors around MuJoCo steps, one call for many steps.
//
// Nothing here keeps Go memory past a call, and no error leaves by longjmp: MuJoCo's errors are
// caught inside this file's functions and come back as a status.

#ifndef OPENCLAW_SIM_MUJOCO_CLAW_H_
#define OPENCLAW_SIM_MUJOCO_CLAW_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__has_include)
#if !__has_include(<mujoco/mujoco.h>)
#error "MuJoCo's headers are missing: run make deps"
#endif
#endif
#include <mujoco/mujoco.h>

enum {
  CLAW_LEGS = 4,
  CLAW_JOINTS = 12,
  CLAW_TEXT = 1024,  // size of every error text
  CLAW_NKEPT = 24,   // numbers kept in userdata, see claw_kept
};

// Status of an advance: 0, or why the physics went bad.
enum {
  CLAW_OK = 0,
  CLAW_WARNING = 1,     // + mjtWarning: MuJoCo itself raised it
  CLAW_NONFINITE = 64,  // a position or velocity is NaN or infinite after a step
  CLAW_ENGINE = 65,     // mju_error; the text says which
};

// Motor modes of the Go1's low-level frame. Any other value is unpowered: no torque.
enum { CLAW_MODE_BRAKE = 0x00, CLAW_MODE_SERVO = 0x0A };

// claw_cmd is laid out as Go's MotorCmd: joints FR FL RR RL x hip thigh calf.
typedef struct {
  uint8_t mode[CLAW_JOINTS];
  int32_t late;  // steps of an advance that still follow q_before
  double q[CLAW_JOINTS], dq[CLAW_JOINTS], tau[CLAW_JOINTS], kp[CLAW_JOINTS], kd[CLAW_JOINTS];
  double q_before[CLAW_JOINTS];
} claw_cmd;

// claw_physics is how a model is simulated where that differs from its file; laid out as Go's physics.
typedef struct {
  double timestep;           // s
  int32_t iterations;        // of Newton's method
  int32_t ls_iterations;     // of its line search
  uint8_t feet_only;         // nothing but the feet touches the floor, and each in an explicit pair
} claw_physics;

// claw_body is the part of the parameters that is written into a model; laid out as Go's Body.
typedef struct {
  double armature[CLAW_JOINTS];  // kg m2, at the joint
  double friction;               // sliding friction of every contact with the floor
  double trunk_mass;             // kg added to the trunk
  double trunk_com[3];           // m added to the trunk's centre of mass, trunk frame
} claw_body;

// claw_params is laid out as Go's Params.
typedef struct {
  claw_body body;
  double motor_friction[CLAW_JOINTS];  // N m at speed
  double strength[CLAW_JOINTS];        // torque made / torque asked
  double brake[CLAW_JOINTS];           // N m s/rad in mode 0x00
  double torque_max[CLAW_JOINTS];      // N m
  double speed_max[CLAW_JOINTS];       // rad/s without load
  double corner;                       // fraction of speed_max up to which torque_max holds
  uint8_t torque_speed_line;           // 0: torque_max at any speed
} claw_params;

// claw_state is laid out as Go's State.
typedef struct {
  double time;
  double pos[3], quat[4];
  double linvel_world[3], linvel_body[3], linvel_imu[3];
  double angvel_body[3], acc[3], gravity[3];
  double q[CLAW_JOINTS], dq[CLAW_JOINTS], tau[CLAW_JOINTS];
  double tau2, power;
  double foot_force[CLAW_LEGS];
  double foot_pos[CLAW_LEGS][3], foot_vel[CLAW_LEGS][3];
  double knee_height[CLAW_LEGS];
  int64_t body_contacts;
  uint8_t contacts[CLAW_LEGS];
} claw_state;

// claw_grip is laid out as Go's Hands.
typedef struct {
  double force[3], torque[3];  // on the trunk, N, N m, world
  double joint[CLAW_JOINTS];   // between the two links of each, N m
  double foot[CLAW_LEGS][3];   // N, world
} claw_grip;

// claw_ids says where the Go1's parts are in a model.
typedef struct {
  int trunk, floor;
  int qadr[CLAW_JOINTS], dadr[CLAW_JOINTS], joint[CLAW_JOINTS];
  int calf[CLAW_LEGS], foot[CLAW_LEGS];
  double imu[3];  // m, in the trunk
  int nstate;     // doubles of mjSTATE_INTEGRATION
  double timestep;
  int lean;       // stepped stage by stage
} claw_ids;

typedef struct claw_model {
  mjModel *m;
  claw_ids ids;
} claw_model;

// claw_sim is one mjData and the model it runs on: the shared one until a row wants its own mass.
typedef struct claw_sim {
  const claw_model *shared;
  const mjModel *m;
  mjModel *own;
  mjData *d;
  claw_body body;   // what m holds now
  int placed;       // kinematics in d belong to qpos
  double *before;   // state at the start of the call (nstate)
  char text[CLAW_TEXT];
} claw_sim;

const char *claw_version(void);
claw_model *claw_load(const char *xml, const claw_physics *physics, char *text);
void claw_model_free(claw_model *cm);

// claw_bodies counts the bodies but the world; claw_body_info describes body id (from 1) and
// returns its name. inertia: xx yy zz xy xz yz about the centre of mass, body frame.
int claw_bodies(const claw_model *cm);
const char *claw_body_info(const claw_model *cm, int id, double *mass, double com[3], double inertia[6]);

claw_sim *claw_sim_new(const claw_model *cm, const claw_params *p, char *text);
void claw_sim_free(claw_sim *s);
int claw_apply(claw_sim *s, const claw_body *b);
int claw_reset(claw_sim *s, const double pos[3], const double quat[4], const double q[CLAW_JOINTS]);
int claw_advance(claw_sim *s, const claw_cmd *c, const claw_params *p, int nsub);
void claw_read(claw_sim *s, claw_state *out);
void claw_push(claw_sim *s, const double force[3], const double torque[3]);
void claw_hands(claw_sim *s, const claw_grip *h);
void claw_set_velocity(claw_sim *s, const double lin_world[3], const double ang_body[3]);
void claw_add_velocity(claw_sim *s, const double dv_world[3]);
void claw_get_state(const claw_sim *s, double *dst);
void claw_set_state(claw_sim *s, const double *src);

// claw_rows advances rows from..to-1 of a batch on one mjData: state in, steps, state and
// observables out. A row whose status is set is left alone; one that goes bad keeps its last state.
void claw_rows(claw_sim *s, int from, int to, double *states, const claw_cmd *cmds, const claw_params *params,
               claw_state *out, int32_t *status, int nsub);

#endif  // OPENCLAW_SIM_MUJOCO_CLAW_H_
