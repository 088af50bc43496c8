"""Deep Q-learning: a target network that follows softly by its state_dict, Huber loss, gather."""
import torch
import torch.nn as nn
import torch.nn.functional as F

GAMMA, TAU = 0.9, 0.05


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super().__init__()
        self.layer1 = nn.Linear(n_observations, 10)
        self.layer2 = nn.Linear(10, 10)
        self.layer3 = nn.Linear(10, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


def model():
    nets = nn.ModuleDict({"policy": DQN(4, 3), "target": DQN(4, 3)})
    nets.target.load_state_dict(nets.policy.state_dict())
    return nets


def optimizer(model):
    return torch.optim.AdamW(model.policy.parameters(), lr=1e-2, amsgrad=True)


def batches(rng):
    return [(rng.normal(size=(8, 4)), rng.integers(0, 3, (8, 1)), rng.normal(size=8),
             rng.normal(size=(8, 4)), rng.random(8) > 0.3) for _ in range(4)]


def step(model, optimizer, state, action, reward, next_state, non_final):
    policy_net, target_net = model.policy, model.target
    state_action_values = policy_net(state).gather(1, action)
    next_state_values = torch.zeros(len(state), device=state.device, dtype=state.dtype)
    with torch.no_grad():
        best = target_net(next_state).max(1).values
        next_state_values = torch.where(non_final, best, next_state_values)
    expected = (next_state_values * GAMMA) + reward
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss.detach()


def after_step(model, optimizer):
    target_net_state_dict = model.target.state_dict()
    policy_net_state_dict = model.policy.state_dict()
    for key in policy_net_state_dict:
        target_net_state_dict[key] = policy_net_state_dict[key] * TAU + \
            target_net_state_dict[key] * (1 - TAU)
    model.target.load_state_dict(target_net_state_dict)
