// The equations of recurrent cells, forward and backward, of one unit of one row at one step (see nn/recurrent.py). Included by recurrent.cu.
#pragma once

enum Cell { RNN, LSTM, PEEPHOLE, COUPLED, GRU, CHO_GRU, LAYER_NORM };
constexpr int GATES = CELL == RNN ? 1 : CELL == LSTM || CELL == PEEPHOLE || CELL == LAYER_NORM ? 4 : 3;
constexpr bool WITH_MEMORY = CELL == LSTM || CELL == PEEPHOLE || CELL == COUPLED || CELL == LAYER_NORM;
constexpr bool TWICE = CELL == CHO_GRU;  // a step has a second product, of r h

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

struct State {
    float h, c;
};
struct Peephole {
    float i, f, o;
};

// What the forward pass left of a step of one unit, and the gradient of its output
struct Left {
    float gates[GATES], c, more, dout;
    State before;
};

// x: products of the inputs with all biases, but that of the products of h where these stand behind a gate; u: products of h.
// more: U h + b of a GRU's n; of Cho's only the first two gates, with r h in the place of h
__device__ inline State cell_forward(const float (&x)[GATES], const float (&u)[GATES], State s, Peephole p, float inner_bias,
                                     float (&gates)[GATES], float& more) {
    if constexpr (CELL == RNN) {
        gates[0] = tanhf(x[0] + u[0]);
        return {gates[0], 0.0f};
    } else if constexpr (CELL == LSTM || CELL == PEEPHOLE) {
        float i = sigmoid(x[0] + u[0] + p.i * s.c), f = sigmoid(x[1] + u[1] + p.f * s.c), g = tanhf(x[2] + u[2]);
        float c = f * s.c + i * g, o = sigmoid(x[3] + u[3] + p.o * c);
        gates[0] = i, gates[1] = f, gates[2] = g, gates[3] = o;
        return {o * tanhf(c), c};
    } else if constexpr (CELL == COUPLED) {
        float i = sigmoid(x[0] + u[0]), g = tanhf(x[1] + u[1]), o = sigmoid(x[2] + u[2]), c = s.c + i * (g - s.c);
        gates[0] = i, gates[1] = g, gates[2] = o;
        return {o * tanhf(c), c};
    } else if constexpr (CELL == GRU) {
        float r = sigmoid(x[0] + u[0]), z = sigmoid(x[1] + u[1]);
        more = u[2] + inner_bias;
        float n = tanhf(x[2] + r * more);
        gates[0] = r, gates[1] = z, gates[2] = n;
        return {n + z * (s.h - n), 0.0f};
    } else {
        float r = sigmoid(x[0] + u[0]), z = sigmoid(x[1] + u[1]);
        gates[0] = r, gates[1] = z;
        return {r * s.h, 0.0f};
    }
}

// The second half of Cho's, from the product of r h
__device__ inline float cho_forward(float x, float u, float z, float h, float& n) {
    n = tanhf(x + u);
    return n + z * (h - n);
}

// d: gradients of the output and of c -> what goes straight to those left.before. grads: of what the gates are made of; inner: that of the
// product of h where it is another (a GRU's n); of Cho's all but r's, which follows when the product of n's is known
__device__ inline State cell_backward(const Left& left, Peephole p, State d, float (&grads)[GATES], float& inner) {
    const float(&gates)[GATES] = left.gates;
    if constexpr (CELL == RNN) {
        grads[0] = d.h * (1 - gates[0] * gates[0]);
        return {0.0f, 0.0f};
    } else if constexpr (CELL == LSTM || CELL == PEEPHOLE) {
        float i = gates[0], f = gates[1], g = gates[2], o = gates[3], squashed = tanhf(left.c);
        float dout = d.h * squashed * o * (1 - o), dc = d.c + d.h * o * (1 - squashed * squashed) + dout * p.o;
        grads[0] = dc * g * i * (1 - i), grads[1] = dc * left.before.c * f * (1 - f), grads[2] = dc * i * (1 - g * g), grads[3] = dout;
        return {0.0f, dc * f + grads[0] * p.i + grads[1] * p.f};
    } else if constexpr (CELL == COUPLED) {
        float i = gates[0], g = gates[1], o = gates[2], squashed = tanhf(left.c), dc = d.c + d.h * o * (1 - squashed * squashed);
        grads[0] = dc * (g - left.before.c) * i * (1 - i), grads[1] = dc * i * (1 - g * g), grads[2] = d.h * squashed * o * (1 - o);
        return {0.0f, dc * (1 - i)};
    } else {
        float r = gates[0], z = gates[1], n = gates[2], dn = d.h * (1 - z) * (1 - n * n);
        grads[0] = dn * left.more * r * (1 - r);  // of Cho's another
        grads[1] = d.h * (left.before.h - n) * z * (1 - z), grads[2] = dn, inner = dn * r;
        return {d.h * z, 0.0f};
    }
}
