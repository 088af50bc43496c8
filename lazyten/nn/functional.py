"""Functions of tensors for neural networks, with PyTorch's names, arguments and results."""
from lazyten.nn.criteria.class_losses import binary_cross_entropy as binary_cross_entropy
from lazyten.nn.criteria.class_losses import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
)
from lazyten.nn.criteria.class_losses import cross_entropy as cross_entropy
from lazyten.nn.criteria.class_losses import linear_cross_entropy as linear_cross_entropy
from lazyten.nn.criteria.class_losses import multi_margin_loss as multi_margin_loss
from lazyten.nn.criteria.class_losses import multilabel_margin_loss as multilabel_margin_loss
from lazyten.nn.criteria.class_losses import (
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
)
from lazyten.nn.criteria.class_losses import nll_loss as nll_loss
from lazyten.nn.criteria.margin_losses import cosine_embedding_loss as cosine_embedding_loss
from lazyten.nn.criteria.margin_losses import hinge_embedding_loss as hinge_embedding_loss
from lazyten.nn.criteria.margin_losses import margin_ranking_loss as margin_ranking_loss
from lazyten.nn.criteria.margin_losses import soft_margin_loss as soft_margin_loss
from lazyten.nn.criteria.margin_losses import triplet_margin_loss as triplet_margin_loss
from lazyten.nn.criteria.margin_losses import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from lazyten.nn.criteria.regression_losses import gaussian_nll_loss as gaussian_nll_loss
from lazyten.nn.criteria.regression_losses import huber_loss as huber_loss
from lazyten.nn.criteria.regression_losses import kl_div as kl_div
from lazyten.nn.criteria.regression_losses import l1_loss as l1_loss
from lazyten.nn.criteria.regression_losses import mse_loss as mse_loss
from lazyten.nn.criteria.regression_losses import poisson_nll_loss as poisson_nll_loss
from lazyten.nn.criteria.regression_losses import smooth_l1_loss as smooth_l1_loss
from lazyten.nn.criteria.sequence_losses import ctc_loss as ctc_loss
from lazyten.nn.functions.activations import celu as celu
from lazyten.nn.functions.activations import elu as elu
from lazyten.nn.functions.activations import gelu as gelu
from lazyten.nn.functions.activations import glu as glu
from lazyten.nn.functions.activations import hardshrink as hardshrink
from lazyten.nn.functions.activations import hardsigmoid as hardsigmoid
from lazyten.nn.functions.activations import hardswish as hardswish
from lazyten.nn.functions.activations import hardtanh as hardtanh
from lazyten.nn.functions.activations import leaky_relu as leaky_relu
from lazyten.nn.functions.activations import logsigmoid as logsigmoid
from lazyten.nn.functions.activations import mish as mish
from lazyten.nn.functions.activations import prelu as prelu
from lazyten.nn.functions.activations import relu as relu
from lazyten.nn.functions.activations import relu6 as relu6
from lazyten.nn.functions.activations import rrelu as rrelu
from lazyten.nn.functions.activations import selu as selu
from lazyten.nn.functions.activations import sigmoid as sigmoid
from lazyten.nn.functions.activations import silu as silu
from lazyten.nn.functions.activations import softplus as softplus
from lazyten.nn.functions.activations import softshrink as softshrink
from lazyten.nn.functions.activations import softsign as softsign
from lazyten.nn.functions.activations import tanh as tanh
from lazyten.nn.functions.activations import tanhshrink as tanhshrink
from lazyten.nn.functions.activations import threshold as threshold
from lazyten.nn.functions.attention import (
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from lazyten.nn.functions.distances import cosine_similarity as cosine_similarity
from lazyten.nn.functions.distances import normalize as normalize
from lazyten.nn.functions.distances import pairwise_distance as pairwise_distance
from lazyten.nn.functions.distances import pdist as pdist
from lazyten.nn.functions.dropout import alpha_dropout as alpha_dropout
from lazyten.nn.functions.dropout import dropout as dropout
from lazyten.nn.functions.dropout import dropout1d as dropout1d
from lazyten.nn.functions.dropout import dropout2d as dropout2d
from lazyten.nn.functions.dropout import dropout3d as dropout3d
from lazyten.nn.functions.dropout import feature_alpha_dropout as feature_alpha_dropout
from lazyten.nn.functions.embedding import embedding as embedding
from lazyten.nn.functions.embedding import embedding_bag as embedding_bag
from lazyten.nn.functions.embedding import one_hot as one_hot
from lazyten.nn.functions.in_place import celu_ as celu_
from lazyten.nn.functions.in_place import elu_ as elu_
from lazyten.nn.functions.in_place import hardtanh_ as hardtanh_
from lazyten.nn.functions.in_place import leaky_relu_ as leaky_relu_
from lazyten.nn.functions.in_place import relu_ as relu_
from lazyten.nn.functions.in_place import rrelu_ as rrelu_
from lazyten.nn.functions.in_place import selu_ as selu_
from lazyten.nn.functions.in_place import threshold_ as threshold_
from lazyten.nn.functions.linear import bilinear as bilinear
from lazyten.nn.functions.linear import linear as linear
from lazyten.nn.functions.multi_head_attention import (
    multi_head_attention_forward as multi_head_attention_forward,
)
from lazyten.nn.functions.normalization import batch_norm as batch_norm
from lazyten.nn.functions.normalization import group_norm as group_norm
from lazyten.nn.functions.normalization import instance_norm as instance_norm
from lazyten.nn.functions.normalization import layer_norm as layer_norm
from lazyten.nn.functions.normalization import local_response_norm as local_response_norm
from lazyten.nn.functions.normalization import rms_norm as rms_norm
from lazyten.nn.functions.padding import pad as pad
from lazyten.nn.functions.softmax import gumbel_softmax as gumbel_softmax
from lazyten.nn.functions.softmax import log_softmax as log_softmax
from lazyten.nn.functions.softmax import softmax as softmax
from lazyten.nn.functions.softmax import softmin as softmin
from lazyten.nn.functions.spatial.adaptive_pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from lazyten.nn.functions.spatial.adaptive_pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from lazyten.nn.functions.spatial.adaptive_pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from lazyten.nn.functions.spatial.adaptive_pooling import adaptive_max_pool1d as adaptive_max_pool1d
from lazyten.nn.functions.spatial.adaptive_pooling import (
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
)
from lazyten.nn.functions.spatial.adaptive_pooling import adaptive_max_pool2d as adaptive_max_pool2d
from lazyten.nn.functions.spatial.adaptive_pooling import (
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
)
from lazyten.nn.functions.spatial.adaptive_pooling import adaptive_max_pool3d as adaptive_max_pool3d
from lazyten.nn.functions.spatial.adaptive_pooling import (
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
)
from lazyten.nn.functions.spatial.convolution import conv1d as conv1d
from lazyten.nn.functions.spatial.convolution import conv2d as conv2d
from lazyten.nn.functions.spatial.convolution import conv3d as conv3d
from lazyten.nn.functions.spatial.convolution import conv_tbc as conv_tbc
from lazyten.nn.functions.spatial.convolution import conv_transpose1d as conv_transpose1d
from lazyten.nn.functions.spatial.convolution import conv_transpose2d as conv_transpose2d
from lazyten.nn.functions.spatial.convolution import conv_transpose3d as conv_transpose3d
from lazyten.nn.functions.spatial.fractional_pooling import (
    fractional_max_pool2d as fractional_max_pool2d,
)
from lazyten.nn.functions.spatial.fractional_pooling import (
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
)
from lazyten.nn.functions.spatial.fractional_pooling import (
    fractional_max_pool3d as fractional_max_pool3d,
)
from lazyten.nn.functions.spatial.fractional_pooling import (
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
)
from lazyten.nn.functions.spatial.interpolation import interpolate as interpolate
from lazyten.nn.functions.spatial.interpolation import upsample as upsample
from lazyten.nn.functions.spatial.interpolation import upsample_bilinear as upsample_bilinear
from lazyten.nn.functions.spatial.interpolation import upsample_nearest as upsample_nearest
from lazyten.nn.functions.spatial.patches import channel_shuffle as channel_shuffle
from lazyten.nn.functions.spatial.patches import fold as fold
from lazyten.nn.functions.spatial.patches import native_channel_shuffle as native_channel_shuffle
from lazyten.nn.functions.spatial.patches import pixel_shuffle as pixel_shuffle
from lazyten.nn.functions.spatial.patches import pixel_unshuffle as pixel_unshuffle
from lazyten.nn.functions.spatial.patches import unfold as unfold
from lazyten.nn.functions.spatial.pooling import avg_pool1d as avg_pool1d
from lazyten.nn.functions.spatial.pooling import avg_pool2d as avg_pool2d
from lazyten.nn.functions.spatial.pooling import avg_pool3d as avg_pool3d
from lazyten.nn.functions.spatial.pooling import lp_pool1d as lp_pool1d
from lazyten.nn.functions.spatial.pooling import lp_pool2d as lp_pool2d
from lazyten.nn.functions.spatial.pooling import lp_pool3d as lp_pool3d
from lazyten.nn.functions.spatial.pooling import max_pool1d as max_pool1d
from lazyten.nn.functions.spatial.pooling import max_pool1d_with_indices as max_pool1d_with_indices
from lazyten.nn.functions.spatial.pooling import max_pool2d as max_pool2d
from lazyten.nn.functions.spatial.pooling import max_pool2d_with_indices as max_pool2d_with_indices
from lazyten.nn.functions.spatial.pooling import max_pool3d as max_pool3d
from lazyten.nn.functions.spatial.pooling import max_pool3d_with_indices as max_pool3d_with_indices
from lazyten.nn.functions.spatial.sampling import affine_grid as affine_grid
from lazyten.nn.functions.spatial.sampling import grid_sample as grid_sample
from lazyten.nn.functions.spatial.unpooling import max_unpool1d as max_unpool1d
from lazyten.nn.functions.spatial.unpooling import max_unpool2d as max_unpool2d
from lazyten.nn.functions.spatial.unpooling import max_unpool3d as max_unpool3d
