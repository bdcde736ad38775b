#!/usr/bin/env python3
"""The arbiter against vectors worked out by hand or by other code: it judges the rest, so it is
not tested against the rest. Run: python test_qwen3_5_numpy.py"""

import unittest

import numpy as np

import qwen3_5_numpy as q35


class Fake:
    """Stands in for a checkpoint: weights given by path."""

    def __init__(self, config, **weights):
        self.config, self.weights = config, weights

    def linear(self, module):
        return np.array(self.weights[module.rsplit(".", 1)[-1]], float)

    norm = vector = linear

    def conv(self, layer):
        return self.linear("conv1d")


class DeltaNet(unittest.TestCase):
    """KH 1, VH 2, dk 2, dv 3, five tokens."""

    def setUp(self):
        c, j, t = np.arange(10), np.arange(4), np.arange(5)
        self.rows = ((5 * t[:, None] + 3 * c) % 11 - 5) / 4
        self.taps = ((3 * c[:, None] + 5 * j) % 7 - 3) / 4
        self.a = np.array([[0.5, -0.25], [-1, 0.75], [0, 1.5], [1, -1], [0.25, 0.25]])
        self.b = np.array([[0, 1], [2, -1], [-0.5, 0.5], [1.5, 0], [-2, 3]])

    def test_recurrence(self):
        x = q35.convolve(self.rows, self.taps)
        q, k, v = np.split(x, [2, 4], -1)
        np.testing.assert_allclose(
            q35.l2(q)[2] / np.sqrt(2), [-0.399130110, 0.583689215], atol=1e-9
        )
        beta = q35.sigmoid(self.b)
        g = np.exp(-np.exp([0, 0.5]) * q35.softplus(self.a + [0.25, -0.5]))
        np.testing.assert_allclose(g[3], [0.222700139, 0.717433976], atol=1e-9)
        q, k = (np.repeat(q35.l2(y)[:, None], 2, axis=1) for y in (q, k))
        o = q35.delta_rule(q / np.sqrt(2), k, v.reshape(5, 2, 3), beta, g)
        np.testing.assert_allclose(
            o[0],
            [[0.084196663, -0.011276651, -0.049179388], [0.111484945, 0.043481351, 0]],
            atol=1e-9,
        )
        np.testing.assert_allclose(
            o[4],
            [[-0.037853255, 0.057243280, -0.055620149], [-0.121243190, -0.153949712, -0.410965848]],
            atol=1e-9,
        )

    def test_whole_layer(self):
        """The same through delta_net: every projection is the identity on a part of the input, and
        only token 4 gets the z of the worked example."""
        z = np.ones((5, 6))
        z[4] = [0.5, -1, 2, 1, 0, -0.5]
        u = np.concatenate((self.rows, self.a, self.b, z), axis=1)
        eye = np.eye(20)
        config = {
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 2,
            "linear_value_head_dim": 3,
            "rms_norm_eps": 1e-6,
        }
        ck = Fake(
            config, in_proj_qkv=eye[:10], in_proj_a=eye[10:12], in_proj_b=eye[12:14],
            in_proj_z=eye[14:], conv1d=self.taps, A_log=[0, 0.5], dt_bias=[0.25, -0.5],
            norm=[1, 0.5, 2], out_proj=np.eye(6),
        )  # fmt: skip
        expected = [-0.230952811, -0.150900699, -3.841554855, -0.337189722, 0, 0.590247654]
        np.testing.assert_allclose(q35.delta_net(ck, 0, u)[4], expected, atol=1e-8)


class Attention(unittest.TestCase):
    def test_gate_split_norm_rope_and_groups(self):
        q = [
            [1, 0, 2, -1, 0.5, -0.5, 1, 0, 0, 1, -1, 2, -1, 2, 0, 0.25],
            [-1, 1, 0.5, 2, 0, 1, -1, 2, 2, -1, 0, 1, 0.5, 0.5, -2, 1],
        ]
        k, v = [[1, 2, 0, -1], [0.5, -1, 1, 0]], [[1, 0, -1, 2], [0, 3, 1, -1]]
        u = np.concatenate((q, k, v), axis=1)
        eye = np.eye(24)
        config = {
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 4,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": 1e7, "partial_rotary_factor": 0.5},
        }
        ck = Fake(
            config, q_proj=eye[:16], k_proj=eye[16:20], v_proj=eye[20:], o_proj=np.eye(8),
            q_norm=[1, 0.5, 2, 1], k_norm=[0.5, 1, 1, 2],
        )  # fmt: skip
        expected = [
            [0.622459331, 0, -0.731058579, 1, 0.268941421, 0, -0.5, 1.124353002],
            [
                0.061202614,
                1.924719560,
                0.203101749,
                -0.557354576,
                0.308286531,
                0.942518402,
                0.001127239,
                0.355159435,
            ],
        ]
        np.testing.assert_allclose(q35.attention(ck, 0, u), expected, atol=1e-8)

    def test_rope_at_real_size(self):
        y = q35.rope(np.ones((1001, 1, 256)), 1e7, 64)[1000, 0]
        np.testing.assert_allclose(
            y[:4], [-0.264500464, -0.451842307, 0.050927156, 0.033198451], atol=1e-8
        )
        np.testing.assert_allclose(
            y[[31, 32, 63, 64]], [0.999834505, 1.389258617, 1.000165468, 1], atol=1e-8
        )


class Mixture(unittest.TestCase):
    def test_router_experts_and_shared_expert(self):
        class Block(Fake):
            def linear(self, module):
                if "shared_expert." in module:
                    shared = {
                        "gate_proj": np.eye(2),
                        "up_proj": 2 * np.eye(2),
                        "down_proj": [[1, 1], [0, 1]],
                    }
                    return np.array(shared[module.rsplit(".", 1)[-1]], float)
                return super().linear(module)

            def experts(self, layer):
                e = range(4)
                return (
                    np.array([[[1, x], [0.5, -1]] for x in e]),
                    np.array([[[x, 1], [1, 1]] for x in e], float),
                    np.array([[[1, 0], [x, 1]] for x in e], float),
                )

        ck = Block(
            {"num_experts_per_tok": 2},
            gate=[[0.5, 1], [1, 0], [-1, 0.5], [0.25, -1]],
            shared_expert_gate=[[0.3, 0.2]],
        )
        margins = np.full(1, np.inf)
        y = q35.mixture(ck, 0, np.array([[1, -0.5]]), margins)
        np.testing.assert_allclose(y, [[0.788576850, -0.063056023]], atol=1e-8)
        self.assertAlmostEqual(margins[0], 0.75)

    def test_equal_logits_take_the_lower_index(self):
        """Experts that answer 0, 1, 10 and 100 times the same value; no shared expert."""
        zero = np.zeros((1, 1))
        ck = Fake(
            {"num_experts_per_tok": 2}, gate=[[0.5], [1], [1], [1]], shared_expert_gate=zero,
            gate_proj=zero, up_proj=zero, down_proj=zero,
        )  # fmt: skip
        ones, down = np.ones((4, 1, 1)), np.array([0.0, 1, 10, 100]).reshape(4, 1, 1)
        ck.experts = lambda layer: (ones, ones, down)
        y = q35.mixture(ck, 0, np.ones((1, 1)), np.full(1, np.inf))
        np.testing.assert_allclose(y, [[0.5 * (1 + 10) * q35.silu(1.0)]])


class Norms(unittest.TestCase):
    def test_rms(self):
        x = np.array([1.0, -2, 3, -4])
        w = 1 + np.array([0.1, -0.2, 0, 0.5])
        np.testing.assert_allclose(
            q35.rms(x, w, 1e-6), [0.401663182, -0.584237356, 1.095445042, -2.190890084], atol=1e-9
        )

    def test_l2_epsilon_is_on_the_sum(self):
        for c, expected in ((1, 0.088388347), (0.01, 0.088384895), (0.001, 0.088045091)):
            self.assertAlmostEqual(q35.l2(np.full(128, c))[0], expected, delta=1e-9)


if __name__ == "__main__":
    unittest.main()
