"""The Python module gives the answers of the command."""

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

import trainyard
from trainyard._tables import _curve as curve

ROOT = Path(__file__).resolve().parents[3]
BINARY = os.path.abspath(os.environ["TRAINYARD_BINARY"])
ONE = str(ROOT / "scenarios/gpt2-one-a100.yaml")
DICT = {
    "cluster": {"nodes": 1, "node": {"base": "dgx-a100", "gpu": {"count": 1}}},
    "model": "gpt2",
    "plan": {"global_batch_size": 4, "micro_batch_size": 4},
    "software": "pytorch-ddp",
}


def answer_of(*words):
    """The answer that the command writes with --json -."""
    done = subprocess.run([BINARY, *words, "--json", "-"], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


class Answers(unittest.TestCase):
    def test_run(self):
        self.assertEqual(trainyard.run(ONE), answer_of("run", ONE))
        sets = ["--set=plan.micro_batch_size=2", "--set=cluster.gpu.memory_capacity=40 GiB"]
        self.assertEqual(
            trainyard.run(Path(ONE), what_if=False, plan__micro_batch_size=2, **{"cluster.gpu.memory_capacity": "40 GiB"}),
            answer_of("run", ONE, "--no-what-if", *sets),
        )

    def test_sweep(self):
        axes = {"plan.micro_batch_size": [1, 2], ("plan.global_batch_size", "plan.seq_length"): [(8, 512), (16, 256)]}
        sets = ["--set=plan.micro_batch_size=1,2", "--set=plan.global_batch_size=8,16 & plan.seq_length=512,256"]
        self.assertEqual(trainyard.sweep(ONE, axes, sort="-mfu"), answer_of("sweep", ONE, *sets, "--sort=-mfu"))

    def test_fleet_compare_and_share(self):
        prices = {"currency": "EUR", "gpu_hour": {"a100-sxm4-80gb": 2}}
        two = DICT | {"plan": {"global_batch_size": 8, "micro_batch_size": 4}}
        with tempfile.TemporaryDirectory() as folder:
            for name, content in (("a", DICT), ("b", two), ("p", prices)):
                Path(folder, name + ".yaml").write_text(json.dumps(content))
            a, b, p = (str(Path(folder, name + ".yaml")) for name in "abp")
            expected = answer_of("compare", a, b, "--prices", p, "--set=plan.micro_batch_size=2")
            by_files = trainyard.compare(a, b, prices=p, plan__micro_batch_size=2)
            self.assertEqual(by_files, expected)
            by_dicts = trainyard.compare(DICT, two, prices=prices, plan__micro_batch_size=2)
            steps = [each["step_time_s"] for each in expected["scenarios"]]
            self.assertEqual([row["step_time_s"] for row in by_dicts["scenarios"]], steps)
            self.assertEqual(by_dicts["scenarios"][0]["money"]["currency"], "EUR")
            self.assertEqual(len(trainyard.to_frame(expected)), 2)
        plan = {"global_batch_size": 128, "micro_batch_size": 16, "training": {"steps": 100000}}
        fleet = {
            "cluster": {"nodes": 2, "node": "dgx-a100", "fabric": "nonblocking"},
            "fleet": {"horizon": "20 d"},
            "trainings": [{"name": "one", "nodes": 1, "scenario": ONE, "plan": plan}],
        }
        answer = trainyard.fleet(fleet, nodes="choose", prices=prices, spares=0)
        self.assertEqual(answer["nodes"], 1)
        self.assertGreater(answer["groups"][0]["money_per_million"], 0)
        with mock.patch.dict(sys.modules, {"pandas": None}):
            self.assertEqual(trainyard.to_frame(answer, "groups")[0]["training"], "one")
            self.assertEqual(len(trainyard.to_frame(answer)), 1)
        with self.assertRaises(ValueError):
            trainyard.to_frame(answer, "gruops")
        shared = str(ROOT / "scenarios/two-jobs.yml")
        self.assertEqual(trainyard.share(shared, steps=8), answer_of("share", shared, "--steps", "8"))
        self.assertEqual(
            trainyard.ask("topo", "design", hosts=64, switch="quantum-2"),
            answer_of("topo", "design", "--hosts", "64", "--switch", "quantum-2"),
        )

    def test_plan(self):
        got = trainyard.plan(model="gpt2", on="dgx-a100", batch=32, brief=True, vary={"plan.tensor_parallel": [1]})
        self.assertEqual(
            got, answer_of(*"plan --model gpt2 --on dgx-a100 --batch 32 --brief --vary plan.tensor_parallel=1".split())
        )

    def test_plan_with_a_limit_of_work(self):
        got = trainyard.plan(model="gpt2", on="dgx-a100", batch=32, brief=True, work=2e5)
        self.assertEqual(got, answer_of(*"plan --model gpt2 --on dgx-a100 --batch 32 --brief --work 200K".split()))
        self.assertEqual(got["ended"], "work")

    def test_bench(self):
        got = trainyard.bench("all_reduce", "dgx-a100", nodes=2, fabric="nonblocking", minbytes="1M", maxbytes="4M")
        words = "bench all_reduce --on dgx-a100 --nodes 2 --fabric nonblocking -b 1M -e 4M"
        self.assertEqual(got, answer_of(*words.split()))

    def test_size(self):
        scenario = {
            "cluster": {"node": "dgx-a100"},
            "model": {"base": "gpt2", "n_layer": 2},
            "plan": {"strategy": "megatron", "global_batch_size": 16, "micro_batch_size": 1, "seq_length": 128}
            | {"pipeline": {"schedule": "1f1b"}},
            "software": "megatron-core",
        }
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            Path("mine.yaml").write_text(json.dumps(scenario))
            words = "size mine.yaml --tokens 1B --days 2 --nodes-of dgx-a100 --gpus 8 --work 2M --batch-tolerance 10%"
            expected = answer_of(*words.split())
        limits = {"gpus": 8, "work": 2e6, "batch_tolerance": "10%"}
        got = trainyard.size(scenario, name="mine", tokens="1B", days=2, nodes_of=["dgx-a100"], **limits)
        self.assertEqual(got, expected)
        self.assertLess(got["rows"][0]["days"], 2)

    def test_a_dict_equals_a_file_with_its_content(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path = Path("mine.yaml")
            path.write_text(
                "cluster:\n  nodes: 1\n  node: {base: dgx-a100, gpu: {count: 1}}\nmodel: gpt2\n"
                "plan: {global_batch_size: 4, micro_batch_size: 4}\nsoftware: pytorch-ddp\n"
            )
            of_file = json.dumps(trainyard.run(path)).replace("given in mine.yaml:3", "given in mine: cluster.node.gpu.count")
            self.assertEqual(trainyard.run(DICT, name="mine"), json.loads(of_file))
            self.assertEqual(trainyard.bench("all_reduce", DICT, name="mine"), trainyard.bench("all_reduce", path))
        changed = {**DICT, "cluster": {**DICT["cluster"], "gpu": {"memory_bandwidth": "1 TB/s"}}}
        got, expected = trainyard.run(changed), trainyard.run(DICT, **{"cluster.gpu.memory_bandwidth": "1 TB/s"})
        given = [figure["source"] for figure in got.pop("sources")]
        self.assertIn("given in scenario: cluster.gpu.memory_bandwidth", given)
        expected.pop("sources")
        self.assertEqual(got, expected)

    def test_answers_of_calls_in_threads_and_forked_processes(self):
        here = trainyard.run(DICT, what_if=False)
        got = []
        threads = [threading.Thread(target=lambda: got.append(trainyard.run(DICT, what_if=False))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [here] * 3)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            self.assertEqual(pool.apply(trainyard.run, (DICT,), {"what_if": False}), here)

    def test_a_call_uses_the_present_folder_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "nodes").mkdir()
            (Path(folder) / "nodes/tiny.yaml").write_text("base: dgx-a100\ngpu: {count: 1}\n")
            tiny = {**DICT, "cluster": {"nodes": 1, "node": "tiny"}}
            with self.assertRaises(trainyard.Error):
                trainyard.run(tiny)
            with contextlib.chdir(folder), mock.patch.dict(os.environ, TRAINYARD_PATH=folder):
                self.assertEqual(trainyard.run(tiny, what_if=False)["fold"]["ranks"], 1)
                Path("here.yaml").write_text(json.dumps(tiny))
                self.assertEqual(trainyard.run("here.yaml", what_if=False)["scenario"], "here")

    def test_other_verbs(self):
        self.assertEqual(trainyard.names("gpus"), answer_of("list", "gpus"))
        self.assertEqual(trainyard.explain(ONE), answer_of("explain", ONE))
        sets = {"plan__micro_batch_size": 2}
        expected = answer_of("explain", ONE, "--layers", "--set=plan.micro_batch_size=2")
        self.assertEqual(trainyard.explain(ONE, layers=True, **sets), expected)
        self.assertEqual(trainyard.validate("kernels"), answer_of("validate", "kernels"))
        done = subprocess.run([BINARY, "topo", "show", ONE], capture_output=True, text=True)
        self.assertEqual(trainyard.command("topo", "show", Path(ONE)), done.stdout)
        with self.assertRaises(trainyard.Error):
            trainyard.command("tpo")
        with self.assertRaises(trainyard.Error):
            trainyard.explain(ONE + "x")

    def test_to_frame(self):
        answer = trainyard.sweep(DICT, {"plan.micro_batch_size": [2, 4, 64]})
        table = trainyard.to_frame(answer)
        try:
            import pandas  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "python3-pandas"):
                trainyard.to_pandas(answer)
            self.assertEqual([row["plan.micro_batch_size"] for row in table], ["2", "4", "64"])
            self.assertEqual(table[1]["step_time_s"], answer["points"][1]["step_time_s"])
            self.assertIn("micro_batch_size", table[2]["error"])
        else:
            self.assertEqual(list(table["plan.micro_batch_size"]), ["2", "4", "64"])
            self.assertEqual(table["step_time_s"][1], answer["points"][1]["step_time_s"])
            self.assertIn("micro_batch_size", table["error"][2])
            self.assertTrue(trainyard.to_pandas(answer).equals(table))
        with self.assertRaises(ValueError):
            trainyard.to_frame({"step_time_s": 1})

    def test_every_answer_with_a_table_has_a_curve(self):
        compared = trainyard.compare(ONE, DICT)
        self.assertEqual(curve(compared, None, None)[:2], ("scenario", "step_time_s"))
        fleet = {"trainings": [{"name": "a", "waiting_s": 3.0}]}
        self.assertEqual(curve(fleet, None, None), ("name", "waiting_s", [("a", 3.0)]))

    def test_the_curve_of_a_plot(self):
        answer = trainyard.sweep(DICT, {"plan.micro_batch_size": [2, 4, 64]})
        x, y, points = curve(answer, None, None)
        self.assertEqual((x, y), ("plan.micro_batch_size", "step_time_s"))
        self.assertEqual(points, [(float(p["set"][x]), p[y]) for p in answer["points"][:2]])  # 64 has no step
        with self.assertRaisesRegex(ValueError, "known: .*step_time_s"):
            curve(answer, None, "step_time")
        rows = {"rows": [{"size_bytes": 8, "busbw_GBps": 2.5}, {"size_bytes": 16, "busbw_GBps": 3}]}
        self.assertEqual(curve(rows, None, None), ("size_bytes", "busbw_GBps", [(8.0, 2.5), (16.0, 3.0)]))
        sizes = {"deadline_days": 9, "rows": [{"node": "a", "days": 3, "money": 7}, {"node": "b", "error": "no"}]}
        self.assertEqual(curve(sizes, None, None), ("days", "money", [(3.0, 7.0)]))
        self.assertEqual(curve(sizes, "node", "money"), ("node", "money", [("a", 7.0)]))
        try:
            import matplotlib
        except ImportError:
            with self.assertRaisesRegex(ImportError, "python3-matplotlib"):
                trainyard.plot(answer)
            return
        matplotlib.use("Agg")
        axes = trainyard.plot(answer)
        self.assertEqual(axes.get_ylabel(), "step_time_s")
        self.assertEqual(list(axes.lines[0].get_ydata()), [height for _, height in points])

class Errors(unittest.TestCase):
    def test_place_and_nearest_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bad.yaml"
            path.write_text("cluster:\n  nods: 8\n  node: dgx-a100\nmodel: gpt2\nplan: {}\n")
            with self.assertRaises(trainyard.Error) as caught:
                trainyard.run(path)
            error = caught.exception
            self.assertIsInstance(error, ValueError)
            self.assertEqual((error.file, error.line, error.column, error.nearest), (str(path), 2, 3, "nodes"))
            self.assertEqual(str(error), f"{path}:2:3: {error.message}")
            with self.assertRaises(trainyard.Error) as caught:
                trainyard.run({"cluster": {"nods": 8, "node": "dgx-a100"}, "model": "gpt2", "plan": {}}, name="bad")
            self.assertEqual(str(caught.exception), f"bad: cluster.nods: {error.message}")
            self.assertEqual((caught.exception.file, caught.exception.line), (None, None))

    def test_errors_without_a_place(self):
        for call in (
            lambda: trainyard.run(ONE + "x"),
            lambda: trainyard.run(ONE, cluster__nods=3),
            lambda: trainyard.plan(),
            lambda: trainyard.bench("all_reduce", "dgx-a101"),
            lambda: trainyard.size(ONE, days=-1),
            lambda: trainyard.sweep(ONE, {"plan.micro_batch_size": []}),
            lambda: trainyard.compare([ONE, ONE]),
            lambda: trainyard.ask("bench", ["all_reduce"]),
        ):
            with self.assertRaises(trainyard.Error) as caught:
                call()
            self.assertIsNone(caught.exception.line)
            self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(trainyard.run(DICT, what_if=False)["scenario"], "scenario")  # the interpreter still works

    def test_values_that_no_scenario_can_hold(self):
        for call in (
            lambda: trainyard.run({**DICT, "model": object()}),
            lambda: trainyard.run({**DICT, "model": b"gpt2"}),
            lambda: trainyard.run({**DICT, "plan": {"global_batch_size": float("nan")}}),
            lambda: trainyard.run(DICT, fold="check"),
        ):
            with self.assertRaises(trainyard.Error):
                call()


class Files(unittest.TestCase):
    """Schedules and collectives that generators yield."""

    def test_a_schedule_equals_the_built_in_one(self):
        stages, micro_batches = 2, 4

        def passes(stage):  # 1F1B
            ahead = min(stages - 1 - stage, micro_batches)
            yield from (("F", i) for i in range(ahead))
            for i in range(ahead, micro_batches):
                yield ("F", i)
                yield f"B{i - ahead}"
            yield from (("B", i) for i in range(micro_batches - ahead, micro_batches))

        two = {"nodes": 1, "node": {"base": "dgx-a100", "gpu": {"count": 2}}}
        plan = {"global_batch_size": 4, "micro_batch_size": 1, "pipeline_parallel": 2, "data_parallel": 1}
        scenario = {"cluster": two, "model": "gpt2", "software": "megatron-core", "plan": plan}
        with tempfile.TemporaryDirectory() as folder:
            path = trainyard.write_schedule(Path(folder) / "order.yaml", passes, stages)
            own = trainyard.run(scenario, what_if=False, plan__pipeline__schedule=path)
            self.assertEqual(
                own["step_time_s"], trainyard.run(scenario, what_if=False, plan__pipeline__schedule="1f1b")["step_time_s"]
            )
            trainyard.write_schedule(path, lambda stage: ["F0", "B0", "B0"], stages)
            with self.assertRaises(trainyard.Error) as caught:
                trainyard.run(scenario, what_if=False, plan__pipeline__schedule=path)
            self.assertIn("comes twice", caught.exception.message)
            with self.assertRaises(ValueError):
                trainyard.write_schedule(Path(folder) / "order.txt", passes, stages)

    def test_a_collective_is_timed(self):
        def ring(ranks):
            for step in range(2 * (ranks - 1)):
                yield [
                    {"from": rank, "to": (rank + 1) % ranks, "chunk": (rank - step) % ranks, "reduce": step < ranks - 1}
                    for rank in range(ranks)
                ]

        with tempfile.TemporaryDirectory() as folder:
            path = trainyard.write_collective(
                Path(folder) / "ring.yaml", ring(4), collective="all-reduce", ranks=4, chunks=4
            )
            words = ["bench", "all_reduce", "--on", "dgx-a100", "--groups", "0-3", "-b", "4M", "-e", "4M"]
            own = answer_of(*words, "--algorithm", path)["rows"][0]["time_us"]
            self.assertAlmostEqual(own / answer_of(*words, "--algorithm", "ring")["rows"][0]["time_us"], 1, places=6)


class LongCalls(unittest.TestCase):
    def test_progress(self):
        lines = []
        trainyard.sweep(DICT, {"plan.micro_batch_size": [1, 2, 4]}, progress=lines.append)
        self.assertIn("3 of 3 points", lines[-1])

        def stop(line):
            raise LookupError(line)

        with self.assertRaises(LookupError):  # an exception of `progress` ends the call
            trainyard.sweep(DICT, {"plan.micro_batch_size": [1, 2, 4]}, progress=stop)

    def test_interrupt(self):
        with tempfile.TemporaryDirectory() as folder:
            points = Path(folder) / "points.jsonl"
            axes = {"plan.micro_batch_size": [1, 2, 4], "cluster.gpu.memory_bandwidth": "range(1000 GB/s, 9000 GB/s)"}
            begun = threading.Event()

            def interrupt():
                begun.wait()
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt, daemon=True)
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                trainyard.sweep(DICT, axes, points=points, progress=lambda line: begun.set())
            thread.join()
            self.assertGreater(len(points.read_text()), 0)  # the file keeps finished points
        self.assertEqual(trainyard.run(DICT, what_if=False)["scenario"], "scenario")


class Wheel(unittest.TestCase):
    @unittest.skipUnless(all(map(importlib.util.find_spec, ["pip", "setuptools", "wheel"])), "pip cannot build wheels")
    def test_it_answers_where_it_is_installed(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            environment["TRAINYARD_BUILD"] = str(Path(BINARY).parents[1])
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            offline = ["--no-index", "--no-deps"]
            wheel = [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, ROOT / "tools/python"]
            subprocess.run(wheel, check=True, env=environment)
            (built,) = Path(folder).glob("trainyard-*.whl")
            prefix = Path(folder) / "prefix"
            subprocess.run([*pip, "install", "--root-user-action=ignore", *offline, "--prefix", prefix, built], check=True, env=environment)
            (module,) = prefix.glob("**/trainyard/_native.*.so")
            (program,) = prefix.glob("**/bin/trainyard")
            environment["PYTHONPATH"] = str(module.parents[1])
            code = "import trainyard; print(trainyard.__file__, trainyard.run('gpt2-one-a100', what_if=False)['step_time_s'])"
            run = [sys.executable, "-c", code]
            printed = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True).stdout
            where, step = printed.split()
            self.assertEqual(Path(where).parent, module.parent)
            self.assertEqual(float(step), trainyard.run(ONE, what_if=False)["step_time_s"])
            native = ["run", "gpt2-one-a100", "--transport=native", "--json", "-", "--no-what-if"]
            done = subprocess.run([program, *native], cwd=folder, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)  # the program found its engine and its files


class Notebook(unittest.TestCase):
    def test_its_cells_print_its_stored_outputs(self):
        notebook = json.loads((ROOT / "scenarios/notebook.ipynb").read_text())
        names = {"__name__": "__main__"}
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertGreater(len(cells), 4)
        for cell in cells:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.chdir(ROOT / "scenarios"):
                exec(compile("".join(cell["source"]), "notebook", "exec"), names)
            shown = "".join(line for output in cell["outputs"] for line in output["text"])
            self.assertEqual(printed.getvalue(), shown)


if __name__ == "__main__":
    sys.exit(unittest.main())
