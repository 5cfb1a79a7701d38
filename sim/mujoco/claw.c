#include "claw.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What the last step produced and a state cannot be asked for afterwards. It lives in userdata, so
// it is saved, restored and moved between threads with the state.
typedef struct {
  double acc[3];  // specific force at the IMU, trunk frame, mean over the last step
  double foot_force[CLAW_LEGS];
  double tau[CLAW_JOINTS];
  double tau2, power;    // means over the substeps of the last advance
  double body_contacts;  // contacts that are not feet
} claw_kept;

_Static_assert(sizeof(claw_kept) <= CLAW_NKEPT * sizeof(double), "claw_kept must fit in userdata");

// Stop values of the maker's header: a position or velocity target that means "no such term".
static const double kPosStop = 2.146e9, kVelStop = 16000.0;

//------------------------------- errors -----------------------------------------------------------

static _Thread_local jmp_buf *error_jump;
static _Thread_local char error_text[CLAW_TEXT];

// on_log is MuJoCo's only log handler. Warnings are counted by mjData and read there; an error
// goes back to the guarded call that caused it.
static void on_log(const mjLogMessage *msg) {
  if (msg->level != mjLOG_ERROR) {
    return;
  }
  snprintf(error_text, sizeof error_text, "%s", msg->subject);
  if (error_jump == NULL) {
    fprintf(stderr, "mujoco: error outside a guarded call: %s\n", msg->subject);
    abort();
  }
  longjmp(*error_jump, 1);
}

// guarded runs f(arg) and returns its status, or CLAW_ENGINE with a text when MuJoCo gave up.
static int guarded(int (*f)(void *), void *arg, char *text) {
  jmp_buf here;
  if (setjmp(here) != 0) {
    error_jump = NULL;
    snprintf(text, CLAW_TEXT, "%s", error_text);
    return CLAW_ENGINE;
  }
  error_jump = &here;
  int status = f(arg);
  error_jump = NULL;
  return status;
}

//------------------------------- model ------------------------------------------------------------

const char *claw_version(void) { return mj_versionString(); }

static int find(const mjModel *m, int type, const char *kind, const char *leg, const char *part, char *text) {
  char name[64];
  snprintf(name, sizeof name, "%s%s", leg, part);
  int id = mj_name2id(m, type, name);
  if (id < 0 && text[0] == '\0') {
    snprintf(text, CLAW_TEXT, "no %s named \"%s\"", kind, name);
  }
  return id;
}

static int find_parts(const mjModel *m, claw_ids *ids, char *text) {
  static const char *const kLeg[CLAW_LEGS] = {"FR", "FL", "RR", "RL"};
  static const char *const kJoint[3] = {"_hip_joint", "_thigh_joint", "_calf_joint"};
  text[0] = '\0';
  ids->trunk = find(m, mjOBJ_BODY, "body", "", "trunk", text);
  ids->floor = find(m, mjOBJ_GEOM, "geom", "", "floor", text);
  int imu = find(m, mjOBJ_SITE, "site", "", "imu", text);
  int root = find(m, mjOBJ_JOINT, "free joint", "", "root", text);
  for (int leg = 0; leg < CLAW_LEGS; leg++) {
    ids->calf[leg] = find(m, mjOBJ_BODY, "body", kLeg[leg], "_calf", text);
    ids->foot[leg] = find(m, mjOBJ_GEOM, "geom", kLeg[leg], "_foot", text);
    for (int k = 0; k < 3; k++) {
      ids->joint[3 * leg + k] = find(m, mjOBJ_JOINT, "joint", kLeg[leg], kJoint[k], text);
    }
  }
  if (text[0] != '\0') {
    return 0;
  }
  if (m->jnt_type[root] != mjJNT_FREE || m->jnt_bodyid[root] != ids->trunk || m->jnt_qposadr[root] != 0) {
    snprintf(text, CLAW_TEXT, "joint \"root\" must be the first joint, free, of body \"trunk\"");
    return 0;
  }
  if (m->site_bodyid[imu] != ids->trunk) {
    snprintf(text, CLAW_TEXT, "site \"imu\" must belong to body \"trunk\"");
    return 0;
  }
  for (int i = 0; i < CLAW_JOINTS; i++) {
    if (m->jnt_type[ids->joint[i]] != mjJNT_HINGE) {
      snprintf(text, CLAW_TEXT, "joint \"%s\" must be a hinge", mj_id2name(m, mjOBJ_JOINT, ids->joint[i]));
      return 0;
    }
    ids->qadr[i] = m->jnt_qposadr[ids->joint[i]];
    ids->dadr[i] = m->jnt_dofadr[ids->joint[i]];
  }
  memcpy(ids->imu, m->site_pos + 3 * imu, sizeof ids->imu);
  ids->nstate = (int)mj_stateSize(m, mjSTATE_INTEGRATION);
  ids->timestep = m->opt.timestep;
  return 1;
}

typedef struct {
  const char *xml;
  const claw_physics *physics;
  mjSpec *spec;
  claw_model *cm;
  char *text;
} load_args;

static int ends_with(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n >= k && strcmp(name + n - k, end) == 0;
}

// feet_only deletes every shape but the floor and the feet, and lets each foot meet the floor in a
// pair of its own, which needs no broad phase. A pair holds the numbers that the floor's priority
// would have given it.
static void feet_only(mjSpec *spec) {
  mjsGeom *floor = NULL;
  for (mjsElement *e = mjs_firstElement(spec, mjOBJ_GEOM), *next; e != NULL; e = next) {
    next = mjs_nextElement(spec, e);
    const char *name = mjs_getString(mjs_getName(e));
    if (strcmp(name, "floor") == 0) {
      floor = mjs_asGeom(e);
      floor->contype = floor->conaffinity = 0;
    } else if (!ends_with(name, "_foot")) {
      mjs_delete(spec, e);
    }
  }
  for (mjsElement *e = mjs_firstElement(spec, mjOBJ_LIGHT), *next; e != NULL; e = next) {
    next = mjs_nextElement(spec, e);
    mjs_delete(spec, e);
  }
  if (floor == NULL) {
    return;  // find_parts says so
  }
  for (mjsElement *e = mjs_firstElement(spec, mjOBJ_GEOM); e != NULL; e = mjs_nextElement(spec, e)) {
    mjsGeom *foot = mjs_asGeom(e);
    if (foot == floor) {
      continue;
    }
    foot->contype = foot->conaffinity = 0;
    mjsPair *pair = mjs_addPair(spec, NULL);
    mjs_setString(pair->geomname1, "floor");
    mjs_setString(pair->geomname2, mjs_getString(mjs_getName(e)));
    pair->condim = 3;
    pair->friction[0] = pair->friction[1] = floor->friction[0];
    pair->friction[2] = floor->friction[1];
    pair->friction[3] = pair->friction[4] = floor->friction[2];
    memcpy(pair->solref, floor->solref, sizeof pair->solref);
    memcpy(pair->solimp, floor->solimp, sizeof pair->solimp);
  }
}

// simulate_as writes p into a model's options: a pyramidal cone, dense Jacobians, and Euler steps
// without implicit damping, which with one iteration would explode.
static void simulate_as(mjSpec *spec, const claw_physics *p) {
  spec->option.timestep = p->timestep;
  spec->option.iterations = p->iterations;
  spec->option.ls_iterations = p->ls_iterations;
  spec->option.cone = mjCONE_PYRAMIDAL;
  spec->option.impratio = 1;
  spec->option.jacobian = mjJAC_DENSE;
  spec->option.disableflags |= mjDSBL_EULERDAMP;
  if (p->feet_only) {
    feet_only(spec);
  }
}

static int load(void *p) {
  load_args *a = p;
  a->spec = mj_parseXMLString(a->xml, NULL, a->text, CLAW_TEXT);
  if (a->spec == NULL) {
    return CLAW_ENGINE;
  }
  a->spec->nuserdata = CLAW_NKEPT;
  if (a->physics != NULL) {
    simulate_as(a->spec, a->physics);
  }
  a->cm->m = mj_compile(a->spec, NULL);
  if (a->cm->m == NULL) {
    snprintf(a->text, CLAW_TEXT, "%s", mjs_getError(a->spec));
    return CLAW_ENGINE;
  }
  a->cm->m->opt.disableflags |= mjDSBL_AUTORESET;  // a bad state is reported, never replaced silently
  a->cm->ids.lean = a->physics != NULL && a->physics->feet_only;
  return find_parts(a->cm->m, &a->cm->ids, a->text) ? CLAW_OK : CLAW_ENGINE;
}

// claw_load compiles an MJCF text, simulated as physics says (NULL: as the text says), and finds the
// Go1 in it; NULL with a text on failure. A process loads one model at a time (the Go side holds a
// lock) because the handler is set here.
claw_model *claw_load(const char *xml, const claw_physics *physics, char *text) {
  mju_setLogHandler(on_log);
  claw_model *cm = calloc(1, sizeof *cm);
  if (cm == NULL) {
    snprintf(text, CLAW_TEXT, "out of memory");
    return NULL;
  }
  load_args a = {xml, physics, NULL, cm, text};
  int status = guarded(load, &a, text);
  if (a.spec != NULL) {
    mj_deleteSpec(a.spec);
  }
  if (status != CLAW_OK) {
    claw_model_free(cm);
    return NULL;
  }
  return cm;
}

void claw_model_free(claw_model *cm) {
  if (cm != NULL) {
    mj_deleteModel(cm->m);
    free(cm);
  }
}

int claw_bodies(const claw_model *cm) { return (int)cm->m->nbody - 1; }

const char *claw_body_info(const claw_model *cm, int id, double *mass, double com[3], double inertia[6]) {
  const mjModel *m = cm->m;
  double r[9];
  *mass = m->body_mass[id];
  memcpy(com, m->body_ipos + 3 * id, 3 * sizeof(double));
  mju_quat2Mat(r, m->body_iquat + 4 * id);
  static const int kRow[6] = {0, 1, 2, 0, 0, 1}, kCol[6] = {0, 1, 2, 1, 2, 2};
  for (int e = 0; e < 6; e++) {
    inertia[e] = 0;
    for (int k = 0; k < 3; k++) {
      inertia[e] += r[3 * kRow[e] + k] * m->body_inertia[3 * id + k] * r[3 * kCol[e] + k];
    }
  }
  return mj_id2name(m, mjOBJ_BODY, id);
}

//------------------------------- one simulation ---------------------------------------------------

static void body_of_model(const claw_model *cm, claw_body *b) {
  memset(b, 0, sizeof *b);
  for (int i = 0; i < CLAW_JOINTS; i++) {
    b->armature[i] = cm->m->dof_armature[cm->ids.dadr[i]];
  }
  b->friction = cm->m->geom_friction[3 * cm->ids.floor];
}

typedef struct {
  claw_sim *s;
  const claw_body *body;
} apply_args;

// apply_body writes the changed quantities into the simulation's own copy of the model. The
// regularisation of constraints (invweight0) keeps its nominal value: it only shapes the solver.
static int apply_body(void *p) {
  apply_args *a = p;
  claw_sim *s = a->s;
  const claw_body *b = a->body;
  const claw_ids *ids = &s->shared->ids;
  const mjModel *nominal = s->shared->m;
  if (s->own == NULL) {
    s->own = mj_copyModel(NULL, nominal);
    s->m = s->own;
  }
  mjModel *m = s->own;
  int t = ids->trunk;
  double mass = nominal->body_mass[t] + b->trunk_mass;
  double scale = mass / nominal->body_mass[t];
  m->body_mass[t] = mass;
  for (int k = 0; k < 3; k++) {
    m->body_inertia[3 * t + k] = nominal->body_inertia[3 * t + k] * scale;
    m->body_ipos[3 * t + k] = nominal->body_ipos[3 * t + k] + b->trunk_com[k];
  }
  m->body_subtreemass[t] = nominal->body_subtreemass[t] + b->trunk_mass;
  m->body_subtreemass[0] = nominal->body_subtreemass[0] + b->trunk_mass;
  m->geom_friction[3 * ids->floor] = b->friction;
  for (int pair = 0; pair < m->npair; pair++) {
    m->pair_friction[5 * pair] = m->pair_friction[5 * pair + 1] = b->friction;
  }
  for (int i = 0; i < CLAW_JOINTS; i++) {
    m->dof_armature[ids->dadr[i]] = b->armature[i];
  }
  s->body = *b;
  return CLAW_OK;
}

// claw_apply makes the simulation's model hold b. It copies the shared model once, when b first
// differs from it.
int claw_apply(claw_sim *s, const claw_body *b) {
  if (memcmp(&s->body, b, sizeof *b) == 0) {
    return CLAW_OK;
  }
  apply_args a = {s, b};
  return guarded(apply_body, &a, s->text);
}

static int new_data(void *p) {
  claw_sim *s = p;
  s->d = mj_makeData(s->m);
  return s->d != NULL ? CLAW_OK : CLAW_ENGINE;
}

claw_sim *claw_sim_new(const claw_model *cm, const claw_params *p, char *text) {
  claw_sim *s = calloc(1, sizeof *s);
  if (s == NULL) {
    snprintf(text, CLAW_TEXT, "out of memory");
    return NULL;
  }
  snprintf(s->text, CLAW_TEXT, "out of memory");
  s->shared = cm;
  s->m = cm->m;
  body_of_model(cm, &s->body);
  s->before = calloc((size_t)cm->ids.nstate, sizeof *s->before);
  if (s->before == NULL || guarded(new_data, s, s->text) != CLAW_OK || claw_apply(s, &p->body) != CLAW_OK) {
    snprintf(text, CLAW_TEXT, "%s", s->text);
    claw_sim_free(s);
    return NULL;
  }
  return s;
}

void claw_sim_free(claw_sim *s) {
  if (s != NULL) {
    mj_deleteData(s->d);
    mj_deleteModel(s->own);
    free(s->before);
    free(s);
  }
}

static claw_kept *kept(const claw_sim *s) { return (claw_kept *)s->d->userdata; }

// imu_velocity writes the velocity of the IMU's place in the world frame.
static void imu_velocity(const claw_sim *s, double out[3]) {
  double v[3];
  mju_cross(v, s->d->qvel + 3, s->shared->ids.imu);
  mju_rotVecQuat(out, v, s->d->qpos + 3);
  mju_addTo3(out, s->d->qvel);
}

// keep_contacts stores the floor's normal force on each foot and how many other parts touch.
static void keep_contacts(claw_sim *s) {
  const mjData *d = s->d;
  const claw_ids *ids = &s->shared->ids;
  claw_kept *k = kept(s);
  memset(k->foot_force, 0, sizeof k->foot_force);
  k->body_contacts = 0;
  for (int i = 0; i < d->ncon; i++) {
    double wrench[6];
    mj_contactForce(s->m, d, i, wrench);
    if (wrench[0] <= 0) {
      continue;
    }
    int leg = 0;
    while (leg < CLAW_LEGS && d->contact[i].geom[0] != ids->foot[leg] && d->contact[i].geom[1] != ids->foot[leg]) {
      leg++;
    }
    if (leg < CLAW_LEGS) {
      k->foot_force[leg] += wrench[0];
    } else {
      k->body_contacts++;
    }
  }
}

// keep_acc stores the specific force that an accelerometer shows when the IMU's velocity changes
// by dv in the world frame within one step.
static void keep_acc(claw_sim *s, const double dv[3]) {
  double f[3], inverse[4];
  for (int k = 0; k < 3; k++) {
    f[k] = dv[k] / s->m->opt.timestep - s->m->opt.gravity[k];
  }
  mju_negQuat(inverse, s->d->qpos + 3);
  mju_rotVecQuat(kept(s)->acc, f, inverse);
}

typedef struct {
  claw_sim *s;
  const double *pos, *quat, *q;
} reset_args;

static int reset(void *p) {
  reset_args *a = p;
  claw_sim *s = a->s;
  mjData *d = s->d;
  mj_resetData(s->m, d);
  memcpy(d->qpos, a->pos, 3 * sizeof(double));
  memcpy(d->qpos + 3, a->quat, 4 * sizeof(double));
  mju_normalize4(d->qpos + 3);
  for (int i = 0; i < CLAW_JOINTS; i++) {
    d->qpos[s->shared->ids.qadr[i]] = a->q[i];
  }
  mj_forward(s->m, d);
  keep_contacts(s);
  // At rest the IMU's velocity changes by the trunk's acceleration and the turn about its origin.
  double turn[3], dv[3];
  mju_cross(turn, d->qacc + 3, s->shared->ids.imu);
  mju_rotVecQuat(dv, turn, d->qpos + 3);
  mju_addTo3(dv, d->qacc);
  mju_scl3(dv, dv, s->m->opt.timestep);
  keep_acc(s, dv);
  s->placed = 1;
  return CLAW_OK;
}

int claw_reset(claw_sim *s, const double pos[3], const double quat[4], const double q[CLAW_JOINTS]) {
  reset_args a = {s, pos, quat, q};
  return guarded(reset, &a, s->text);
}

//------------------------------- motors -----------------------------------------------------------

// motor_torque is what motor i makes at its joint, q rad, dq rad/s: the servo law about target, the
// strength of this motor, and what current and supply voltage leave of it.
static double motor_torque(const claw_cmd *c, const claw_params *p, int i, double target, double q, double dq) {
  double tau;
  switch (c->mode[i]) {
    case CLAW_MODE_SERVO:
      tau = c->tau[i];
      if (target != kPosStop) {
        tau += c->kp[i] * (target - q);
      }
      if (c->dq[i] != kVelStop) {
        tau += c->kd[i] * (c->dq[i] - dq);
      }
      tau *= p->strength[i];
      break;
    case CLAW_MODE_BRAKE:
      tau = -p->brake[i] * dq;
      break;
    default:
      return 0;
  }
  double max = p->torque_max[i];
  tau = mju_clip(tau, -max, max);
  if (p->torque_speed_line && tau * dq > 0) {
    // Only torque that drives the motion fights the back-EMF; braking has the whole current.
    double left = (p->speed_max[i] - fabs(dq)) / (p->speed_max[i] * (1 - p->corner));
    max *= mju_clip(left, 0, 1);
    tau = mju_clip(tau, -max, max);
  }
  return tau;
}

typedef struct {
  claw_sim *s;
  const claw_cmd *c;
  const claw_params *p;
  int nsub;
} advance_args;

static int warnings(const mjData *d) {
  int n = 0;
  for (int i = 0; i < mjNWARNING; i++) {
    n += d->warning[i].number;
  }
  return n;
}

static int first_warning(const mjData *d) {
  int i = 0;
  while (i < mjNWARNING - 1 && d->warning[i].number == 0) {
    i++;
  }
  return CLAW_WARNING + i;
}

// sane is true when the sum of magnitudes is a number below MuJoCo's own bound.
static int sane(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    sum += fabs(x[i]);
  }
  return sum < mjMAXVAL;
}

// lean_step is mj_step of a feet-only model without what such a model has no use for: the same
// bits in an eighth less time.
static void lean_step(const mjModel *m, mjData *d) {
  mj_kinematics(m, d);
  mj_comPos(m, d);
  mj_makeM(m, d);
  mj_factorM(m, d);
  mj_collision(m, d);
  mj_makeConstraint(m, d);
  mj_fwdVelocity(m, d);
  mj_fwdAcceleration(m, d);
  mj_fwdConstraint(m, d);
  mj_Euler(m, d);
}

static int advance(void *p) {
  const advance_args *a = p;
  claw_sim *s = a->s;
  const mjModel *m = s->m;
  mjData *d = s->d;
  const claw_ids *ids = &s->shared->ids;
  claw_kept *k = kept(s);
  double tau2 = 0, power = 0, v0[3] = {0}, v1[3];
  memset(d->warning, 0, sizeof d->warning);
  s->placed = 0;
  for (int n = 0; n < a->nsub; n++) {
    for (int i = 0; i < CLAW_JOINTS; i++) {
      double dq = d->qvel[ids->dadr[i]];
      double tau = motor_torque(a->c, a->p, i, (n < a->c->late ? a->c->q_before : a->c->q)[i], d->qpos[ids->qadr[i]], dq);
      k->tau[i] = tau;
      tau2 += tau * tau;
      power += fabs(tau * dq);
      d->qfrc_applied[ids->dadr[i]] = tau - a->p->motor_friction[i] * dq / (fabs(dq) + 0.1);
    }
    if (n == a->nsub - 1) {
      imu_velocity(s, v0);
    }
    if (ids->lean) {
      lean_step(m, d);
    } else {
      mj_step(m, d);
    }
    if (warnings(d) != 0) {
      return first_warning(d);
    }
    if (!sane(d->qpos, (int)m->nq) || !sane(d->qvel, (int)m->nv)) {
      return CLAW_NONFINITE;
    }
  }
  keep_contacts(s);
  imu_velocity(s, v1);
  mju_subFrom3(v1, v0);
  keep_acc(s, v1);
  k->tau2 = tau2 / a->nsub;
  k->power = power / a->nsub;
  return CLAW_OK;
}

static int run(claw_sim *s, const claw_cmd *c, const claw_params *p, int nsub) {
  advance_args a = {s, c, p, nsub};
  return guarded(advance, &a, s->text);
}

// reset_data clears what an abandoned step left in mjData: its stack, warnings and warm start.
static int reset_data(void *p) {
  claw_sim *s = p;
  mj_resetData(s->m, s->d);
  return CLAW_OK;
}

static void renew(claw_sim *s) {
  char ignored[CLAW_TEXT];
  guarded(reset_data, s, ignored);
}

// claw_advance runs nsub (at least 1) physics steps under one command. When the physics goes bad
// the state is as before the call.
int claw_advance(claw_sim *s, const claw_cmd *c, const claw_params *p, int nsub) {
  claw_get_state(s, s->before);
  int status = run(s, c, p, nsub);
  if (status != CLAW_OK) {
    renew(s);
    claw_set_state(s, s->before);
  }
  return status;
}

void claw_rows(claw_sim *s, int from, int to, double *states, const claw_cmd *cmds, const claw_params *params,
               claw_state *out, int32_t *status, int nsub) {
  size_t n = (size_t)s->shared->ids.nstate;
  for (int row = from; row < to; row++) {
    if (status[row] != CLAW_OK) {
      continue;
    }
    double *state = states + n * (size_t)row;
    status[row] = claw_apply(s, &params[row].body);
    if (status[row] != CLAW_OK) {
      continue;
    }
    claw_set_state(s, state);
    status[row] = run(s, &cmds[row], &params[row], nsub);
    if (status[row] != CLAW_OK) {
      renew(s);
      continue;
    }
    claw_get_state(s, state);
    claw_read(s, &out[row]);
  }
}

//------------------------------- reading and writing ----------------------------------------------

static void foot_velocity(const claw_sim *s, int leg, const double omega_world[3], double out[3]) {
  const mjData *d = s->d;
  const claw_ids *ids = &s->shared->ids;
  const double *p = d->geom_xpos + 3 * ids->foot[leg];
  double arm[3], v[3];
  mju_sub3(arm, p, d->qpos);
  mju_cross(out, omega_world, arm);
  mju_addTo3(out, d->qvel);
  for (int i = 3 * leg; i < 3 * leg + 3; i++) {
    mju_sub3(arm, p, d->xanchor + 3 * ids->joint[i]);
    mju_cross(v, d->xaxis + 3 * ids->joint[i], arm);
    mju_addToScl3(out, v, d->qvel[ids->dadr[i]]);
  }
}

// claw_read fills out from the present state; forces, torques and the accelerometer belong to the
// step that led to it.
void claw_read(claw_sim *s, claw_state *out) {
  mjData *d = s->d;
  const claw_ids *ids = &s->shared->ids;
  const claw_kept *k = kept(s);
  if (!s->placed) {
    mj_kinematics(s->m, d);
    s->placed = 1;
  }
  double inverse[4], omega_world[3], v[3];
  out->time = d->time;
  memcpy(out->pos, d->qpos, sizeof out->pos);
  memcpy(out->quat, d->qpos + 3, sizeof out->quat);
  memcpy(out->linvel_world, d->qvel, sizeof out->linvel_world);
  memcpy(out->angvel_body, d->qvel + 3, sizeof out->angvel_body);
  mju_negQuat(inverse, out->quat);
  mju_rotVecQuat(out->linvel_body, out->linvel_world, inverse);
  mju_cross(v, out->angvel_body, ids->imu);
  mju_add3(out->linvel_imu, out->linvel_body, v);
  mju_rotVecQuat(out->gravity, (double[3]){0, 0, -1}, inverse);
  mju_rotVecQuat(omega_world, out->angvel_body, out->quat);
  for (int i = 0; i < CLAW_JOINTS; i++) {
    out->q[i] = d->qpos[ids->qadr[i]];
    out->dq[i] = d->qvel[ids->dadr[i]];
  }
  memcpy(out->acc, k->acc, sizeof out->acc);
  memcpy(out->tau, k->tau, sizeof out->tau);
  memcpy(out->foot_force, k->foot_force, sizeof out->foot_force);
  out->tau2 = k->tau2;
  out->power = k->power;
  out->body_contacts = (int64_t)k->body_contacts;
  for (int leg = 0; leg < CLAW_LEGS; leg++) {
    memcpy(out->foot_pos[leg], d->geom_xpos + 3 * ids->foot[leg], sizeof out->foot_pos[leg]);
    foot_velocity(s, leg, omega_world, out->foot_vel[leg]);
    out->knee_height[leg] = d->xpos[3 * ids->calf[leg] + 2];
    out->contacts[leg] = k->foot_force[leg] > 0;
  }
}

void claw_push(claw_sim *s, const double force[3], const double torque[3]) {
  double *f = s->d->xfrc_applied + 6 * s->shared->ids.trunk;
  memcpy(f, force, 3 * sizeof(double));
  memcpy(f + 3, torque, 3 * sizeof(double));
}

// claw_hands applies what claw_push does, a torque at each joint between its two links, and a force
// at the middle of each foot.
void claw_hands(claw_sim *s, const claw_grip *h) {
  const mjModel *m = s->m;
  mjData *d = s->d;
  const claw_ids *ids = &s->shared->ids;
  if (!s->placed) {
    mj_kinematics(m, d);
    s->placed = 1;
  }
  claw_push(s, h->force, h->torque);
  for (int i = 0; i < CLAW_JOINTS; i++) {
    memset(d->xfrc_applied + 6 * m->jnt_bodyid[ids->joint[i]], 0, 6 * sizeof(double));
  }
  for (int i = 0; i < CLAW_JOINTS; i++) {
    int link = m->jnt_bodyid[ids->joint[i]];
    const double *axis = d->xaxis + 3 * ids->joint[i];
    mju_addToScl3(d->xfrc_applied + 6 * link + 3, axis, h->joint[i]);
    mju_addToScl3(d->xfrc_applied + 6 * m->body_parentid[link] + 3, axis, -h->joint[i]);
  }
  for (int leg = 0; leg < CLAW_LEGS; leg++) {
    double *f = d->xfrc_applied + 6 * ids->calf[leg], arm[3], torque[3];
    mju_addTo3(f, h->foot[leg]);
    mju_sub3(arm, d->geom_xpos + 3 * ids->foot[leg], d->xipos + 3 * ids->calf[leg]);
    mju_cross(torque, arm, h->foot[leg]);
    mju_addTo3(f + 3, torque);
  }
}

void claw_set_velocity(claw_sim *s, const double lin_world[3], const double ang_body[3]) {
  memcpy(s->d->qvel, lin_world, 3 * sizeof(double));
  memcpy(s->d->qvel + 3, ang_body, 3 * sizeof(double));
}

void claw_add_velocity(claw_sim *s, const double dv_world[3]) { mju_addTo3(s->d->qvel, dv_world); }

void claw_get_state(const claw_sim *s, double *dst) { mj_getState(s->m, s->d, dst, mjSTATE_INTEGRATION); }

void claw_set_state(claw_sim *s, const double *src) {
  mj_setState(s->m, s->d, src, mjSTATE_INTEGRATION);
  s->placed = 0;
}
