"""EnvPool's Go1JoystickFlatTerrain-v1 under a policy, timed on request: the other side of bench_peers.py.

    bench_peers.py ── "1000\\n" ──► stdin    1000 control steps of every row
                   ◄── JSON ────── stdout   one line: what they took and what happened in them

The first line of stdout says what is simulated. Only env.step is timed: the policy and the conversions between its float32 and the
environment's float64 are not. 256 rows have a model each, 13 GB together, and take half a minute to make, so one process serves all
pairs.
"""

import argparse
import hashlib
import json
import os
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy: threads that spin after a product would disturb what is timed

import envpool  # noqa: E402
import mujoco  # noqa: E402
import numpy  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402

from worker import cpu_seconds, memory_mb, own_stdout, serve  # noqa: E402

TASK = "Go1JoystickFlatTerrain-v1"
SCENE = "mujoco/playground/assets/mujoco_playground/_src/locomotion/go1/xmls/scene_mjx_feetonly_flat_terrain.xml"
# Which feet touched the floor one control step ago, 1 or 0: these four of the 123 numbers of privileged_state. Before them come the
# 48 of the policy's observation, then without noise gyro 3, accelerometer 3, gravity 3, velocity 3, angular velocity 3, joint
# positions 12, velocities 12 and torques 12.
CONTACTS = slice(99, 103)

# World's names of the sensors' noise, and EnvPool's.
NOISE = {"gyro": "gyro", "gravity": "gravity", "joint_pos": "joint_pos", "joint_vel": "joint_vel", "lin_vel": "linvel"}


def settings(config):
    """What is simulated: the environment's configuration, laid over its model file as it does itself."""
    model = mujoco.MjModel.from_xml_path(os.path.join(config["base_path"], SCENE))
    option = model.opt
    meets = (model.geom_contype[:, None] & model.geom_conaffinity[None, :]) != 0
    meets = (meets | meets.T) & (model.geom_bodyid[:, None] != model.geom_bodyid[None, :])
    floor = model.geom("floor")
    return {
        "mujoco": mujoco.__version__,
        "timestep_s": config["sim_dt"],
        "substeps": round(config["ctrl_dt"] / config["sim_dt"]),
        "iterations": int(option.iterations),
        "ls_iterations": int(option.ls_iterations),
        "solver": mujoco.mjtSolver(option.solver).name[len("mjSOL_"):].lower(),
        "cone": mujoco.mjtCone(option.cone).name[len("mjCONE_"):].lower(),
        "integrator": mujoco.mjtIntegrator(option.integrator).name[len("mjINT_"):].lower(),
        "implicit_damping": not option.disableflags & mujoco.mjtDisableBit.mjDSBL_EULERDAMP,
        "colliding_geoms": int(meets.any(axis=1).sum()) - 1,  # but the floor
        "friction": float(floor.friction[0]),  # its priority is the higher one
        "joint_friction_rows": int((model.dof_frictionloss > 0).sum()),
        "sensors": int(model.nsensor),
        "kp": config["kp"],
        "kd": config["kd"],
        "commands_max": [config["command_a%d" % i] for i in range(3)],
        "commands_new": "after 5 s on average, exponential: each number with 1/2 a new one, which is not 0 with %s" % "/".join(
            "%g" % config["command_b%d" % i] for i in range(3)),
        "noise": {ours: config["noise_level"] * config["noise_" + name] for ours, name in NOISE.items()},
        "varied": "nothing",
        "pushes": "none",
        "start": "yaw any, trunk up to 0.5 m/s and 0.5 rad/s each axis",
        "episode_steps": config["max_episode_steps"],
        "fall": "upside down",
        "observations": 48 + 123,
    }


def load_policy(path):
    """The network of an ONNX file as a function of (rows, observation) arrays, on one thread."""
    with open(path, "rb") as f:
        model = onnx.load_from_string(f.read())
    for value in list(model.graph.input) + list(model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"  # the file says 1
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda observation: session.run(None, {name: observation})[0]


class Rows:
    """Environments under a policy."""

    def __init__(self, config, rows, threads, seed, policy):
        self.rows, self.policy = rows, policy
        self.pool = envpool.make(TASK, env_type="gymnasium", num_envs=rows, num_threads=threads, seed=seed, **config)
        self.observation, _ = self.pool.reset()

    def run(self, steps):
        """Steps every row and says how long env.step took and what happened."""
        spent = cpu = contacts = 0.0
        fell = timed_out = 0
        for _ in range(steps):
            action = self.policy(self.observation["state"].astype(numpy.float32)).astype(numpy.float64)
            cpu_start, start = cpu_seconds(), time.perf_counter()
            self.observation, _, terminated, truncated, _ = self.pool.step(action)
            spent += time.perf_counter() - start
            cpu += cpu_seconds() - cpu_start
            contacts += float(self.observation["privileged_state"][:, CONTACTS].sum())
            fell += int(terminated.sum())
            timed_out += int((truncated & ~terminated).sum())
        n = self.rows * steps
        return {"rows": self.rows, "steps": steps, "seconds": spent, "steps_per_s": n / spent, "cpu_us_per_step": 1e6 * cpu / n,
                "contacts": contacts / n, "fell": fell, "timed_out": timed_out, "ended": fell + timed_out, "rss_mb": memory_mb()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", required=True)
    parser.add_argument("--config", type=json.loads, default={}, help="JSON object laid over EnvPool's configuration")
    args = parser.parse_args()
    stream = own_stdout()
    spec = envpool.make_spec(TASK, num_envs=args.rows, num_threads=args.threads, seed=args.seed, **args.config)
    said = settings(spec.config._asdict())
    with open(args.policy, "rb") as f:
        said["policy_sha256"] = hashlib.sha256(f.read()).hexdigest()
    rows = Rows(args.config, args.rows, args.threads, args.seed, load_policy(args.policy))
    serve(stream, {"rows": args.rows, "threads": args.threads, "envpool": envpool.__version__, "settings": said},
          lambda line: rows.run(int(line)))


if __name__ == "__main__":
    main()
